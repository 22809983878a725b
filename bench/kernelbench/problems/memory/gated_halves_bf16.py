"""SwiGLU on the two halves of each row, in bf16."""

import torch
from torch import nn

tokens = 8192
wide = 28672


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, dim=-1)
        return nn.functional.silu(gate) * up


def get_inputs():
    return [torch.randn(tokens, wide, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
