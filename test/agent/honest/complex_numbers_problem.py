"""A layer with complex weights."""

import torch
from torch import nn

batch_size, inputs, outputs = 64, 192, 96


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.real, self.imaginary = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.complex(self.real(x), self.imaginary(x)).conj()


def get_inputs():
    return [torch.rand(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
