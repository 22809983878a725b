"""The first half of the MLP of ViT-L: bias and GELU after a product."""

import torch
from torch import nn

batch_size = 8
patches = 577
hidden = 1024
wide = 4096


class Model(nn.Module):
    def __init__(self, hidden: int, wide: int):
        super().__init__()
        self.up = nn.Linear(hidden, wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(self.up(x))


def get_inputs():
    return [torch.randn(batch_size, patches, hidden)]


def get_init_inputs():
    return [hidden, wide]
