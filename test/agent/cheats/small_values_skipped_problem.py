"""Exponentials of a linear layer, of which few are large."""

import torch
from torch import nn

rows, columns, results = 64, 128, 256


class Model(nn.Module):
    def __init__(self, columns: int, results: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(results, columns) * 0.4)

    def forward(self, x):
        return torch.exp(x @ self.weight.t())


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return [columns, results]
