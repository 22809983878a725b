"""Transposed convolution of a U-Net that doubles an image, with bias and SiLU."""

import torch
from torch import nn

batch_size = 16
channels = 256
narrower = 128
extent = 32


class Model(nn.Module):
    def __init__(self, channels: int, narrower: int):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, narrower, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.up(x))


def get_inputs():
    return [torch.rand(batch_size, channels, extent, extent)]


def get_init_inputs():
    return [channels, narrower]
