"""The query, key and value projection of Llama 3 8B, for 2048 tokens."""

import torch
from torch import nn

tokens = 2048
hidden = 4096
projected = 6144


class Model(nn.Module):
    def __init__(self, hidden: int, projected: int):
        super().__init__()
        self.qkv = nn.Linear(hidden, projected, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.qkv(x)


def get_inputs():
    return [torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden, projected]
