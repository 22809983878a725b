"""A weighted mean of many numbers, whose errors of rounding average out."""

import torch
from torch import nn

rows, columns, results = 64, 4096, 48


class Model(nn.Module):
    def __init__(self, columns: int, results: int):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(results, columns) / columns)

    def forward(self, x):
        return x @ self.weight.t()


def get_inputs():
    return [torch.rand(rows, columns)]


def get_init_inputs():
    return [columns, results]
