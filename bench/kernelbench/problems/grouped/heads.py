"""A product with weights of its own for each head, and a bias for each head."""

import torch
from torch import nn

heads = 32
tokens = 1024
width = 128
wide = 512


class Model(nn.Module):
    def __init__(self, heads: int, width: int, wide: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(heads, width, wide) / width**0.5)
        self.bias = nn.Parameter(torch.randn(heads, 1, wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.bmm(x, self.weight) + self.bias)


def get_inputs():
    return [torch.randn(heads, tokens, width)]


def get_init_inputs():
    return [heads, width, wide]
