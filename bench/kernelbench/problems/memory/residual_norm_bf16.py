"""A residual is added, then normalised: both sums leave, in bf16."""

import torch
from torch import nn

tokens = 16384
hidden = 4096


class Model(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        s = x + residual
        return self.norm(s), s


def get_inputs():
    return [
        torch.randn(tokens, hidden, dtype=torch.bfloat16),
        torch.randn(tokens, hidden, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return [hidden]
