"""A convolution in three dimensions."""

import torch
from torch import nn

batch_size = 4
channels = 64
frames = 16
extent = 56


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv3d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.rand(batch_size, channels, frames, extent, extent)]


def get_init_inputs():
    return [channels]
