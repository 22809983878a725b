"""The whole MLP of Llama 3 8B in bf16: gate, product, projection back."""

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
        self.down = nn.Linear(wide, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(tokens, hidden, dtype=torch.bfloat16)]


def get_init_inputs():
    return [hidden, wide]
