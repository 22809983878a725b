"""The projection after BERT-large's attention: bias, and what goes around it is added."""

import torch
from torch import nn

tokens = 4096
hidden = 1024


class Model(nn.Module):
    def __init__(self, hidden: int):
        super().__init__()
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return self.out(x) + residual


def get_inputs():
    return [torch.randn(tokens, hidden), torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden]
