"""The second product of the MLP of Qwen 2.5 7B, in bf16."""

import torch
from torch import nn

tokens = 2048
wide = 18944
hidden = 3584


class Model(nn.Module):
    def __init__(self, wide: int, hidden: int):
        super().__init__()
        self.down = nn.Linear(wide, hidden, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(x)


def get_inputs():
    return [torch.randn(tokens, wide, dtype=torch.bfloat16)]


def get_init_inputs():
    return [wide, hidden]
