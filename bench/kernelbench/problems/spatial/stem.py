"""The first convolution of ResNet-50 and its pooling: three channels, a window of seven."""

import torch
from torch import nn

batch_size = 32
channels = 64
extent = 224


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 7, stride=2, padding=3)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(torch.relu(self.conv(x)))


def get_inputs():
    return [torch.rand(batch_size, 3, extent, extent)]


def get_init_inputs():
    return [channels]
