"""Batch normalisation in training over the channels of a feature map of ResNet-50."""

import torch
from torch import nn

batch_size = 64
channels = 256
extent = 56


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, channels, extent, extent)]


def get_init_inputs():
    return [channels]
