"""The MLP of ViT-L around which its input is added."""

import torch
from torch import nn

batch_size = 4
patches = 577
hidden = 1024
wide = 4096


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.up = nn.Linear(hidden, wide)
        self.down = nn.Linear(wide, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


def get_inputs():
    return [torch.randn(batch_size, patches, hidden)]


def get_init_inputs():
    return [hidden, wide]
