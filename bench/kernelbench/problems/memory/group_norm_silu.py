"""Group normalisation and SiLU, as in the U-Net of a diffusion model."""

import torch
from torch import nn

batch_size = 8
channels = 320
groups = 32
extent = 64


class Model(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.norm(x))


def get_inputs():
    return [torch.randn(batch_size, channels, extent, extent)]


def get_init_inputs():
    return [groups, channels]
