"""A convolution of single positions."""

import torch
from torch import nn

batch_size, inputs, outputs, size = 4, 24, 32, 14


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.rand(batch_size, inputs, size, size)]


def get_init_inputs():
    return [inputs, outputs]
