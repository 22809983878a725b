"""The gate of Llama 3 8B: two products of the same input, one through SiLU, multiplied."""

import torch
from torch import nn

tokens = 1024
hidden = 4096
wide = 14336


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.gate = nn.Linear(hidden, wide, bias=False)
        self.up = nn.Linear(hidden, wide, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden, wide]
