"""A linear layer with ReLU: the problem that the samples beside this file claim to solve."""

import torch
from torch import nn

batch_size, inputs, outputs = 64, 192, 96


class Model(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(batch_size, inputs)]


def get_init_inputs():
    return [inputs, outputs]
