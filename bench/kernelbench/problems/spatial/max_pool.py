"""The largest of overlapping windows."""

import torch
from torch import nn

batch_size = 64
channels = 64
extent = 112


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, channels, extent, extent)]


def get_init_inputs():
    return []
