"""The MLP of GPT-2 for 4096 tokens, with the tanh form of GELU."""

import torch
from torch import nn

tokens = 4096
hidden = 768
wide = 3072


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.up = nn.Linear(hidden, wide)
        self.down = nn.Linear(wide, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x), approximate="tanh"))


def get_inputs():
    return [torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden, wide]
