"""The first half of an MLP of Whisper large: bias and GELU, in bf16."""

import torch
from torch import nn

frames = 1500
hidden = 1280
wide = 5120


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.up = nn.Linear(hidden, wide, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.up(x))


def get_inputs():
    return [torch.randn(frames, hidden, dtype=torch.bfloat16)]


def get_init_inputs():
    return [hidden, wide]
