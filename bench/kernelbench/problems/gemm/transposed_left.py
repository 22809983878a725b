"""A product whose left operand lies in memory by columns, as in a gradient of weights."""

import torch
from torch import nn

tokens = 8192
rows = 2048
columns = 2048


class Model(nn.Module):
    def forward(self, gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return gradient.T @ x


def get_inputs():
    return [torch.randn(tokens, rows), torch.randn(tokens, columns)]


def get_init_inputs():
    return []
