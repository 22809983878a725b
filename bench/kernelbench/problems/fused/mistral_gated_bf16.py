"""The gate of Mistral 7B in bf16."""

import torch
from torch import nn

tokens = 2048
hidden = 4096
wide = 14336


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.gate = nn.Linear(hidden, wide, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(hidden, wide, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(tokens, hidden, dtype=torch.bfloat16)]


def get_init_inputs():
    return [hidden, wide]
