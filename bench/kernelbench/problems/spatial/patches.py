"""Patches of ViT-L as tokens: a convolution whose windows do not overlap, and a transpose."""

import torch
from torch import nn

batch_size = 32
hidden = 1024
patch = 14
extent = 224


class Model(nn.Module):
    def __init__(self, hidden: int, patch: int):
        super().__init__()
        self.conv = nn.Conv2d(3, hidden, patch, stride=patch)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).flatten(2).transpose(1, 2)


def get_inputs():
    return [torch.rand(batch_size, 3, extent, extent)]


def get_init_inputs():
    return [hidden, patch]
