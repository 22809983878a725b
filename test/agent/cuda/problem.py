"""A linear layer with ReLU, in f32: the problem that the samples beside this file claim to solve on a GPU."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(1024, 1120)]


def get_init_inputs():
    return [1120, 1024]
