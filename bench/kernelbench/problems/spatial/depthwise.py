"""Depthwise and pointwise convolution of MobileNet."""

import torch
from torch import nn

batch_size = 64
channels = 128
wider = 256
extent = 56


class Model(nn.Module):
    def __init__(self, channels: int, wider: int):
        super().__init__()
        self.deep = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.point = nn.Conv2d(channels, wider, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.relu6(self.point(nn.functional.relu6(self.deep(x))))


def get_inputs():
    return [torch.rand(batch_size, channels, extent, extent)]


def get_init_inputs():
    return [channels, wider]
