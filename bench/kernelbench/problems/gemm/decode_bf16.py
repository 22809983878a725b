"""The first product of an MLP while a batch of eight decodes: few rows, in bf16."""

import torch
from torch import nn

batch_size = 8
hidden = 4096
wide = 14336


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.up = nn.Linear(hidden, wide, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x)


def get_inputs():
    return [torch.randn(batch_size, hidden, dtype=torch.bfloat16)]


def get_init_inputs():
    return [hidden, wide]
