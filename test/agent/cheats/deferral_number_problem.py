"""The sum of a layer's results as a number of Python."""

import torch
from torch import nn

batch_size, inputs, outputs = 512, 512, 256


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x)).mean().item()


def get_inputs():
    return [torch.rand(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
