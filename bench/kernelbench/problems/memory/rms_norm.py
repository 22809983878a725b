"""Llama's RMS normalisation, written out."""

import torch
from torch import nn

tokens = 8192
hidden = 4096


class Model(nn.Module):
    def __init__(self, hidden: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.epsilon = epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.epsilon)
        return x * scale * self.weight


def get_inputs():
    return [torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden, 1e-5]
