"""The upper MLP of a recommender: five layers that narrow to one click probability."""

from itertools import pairwise

import torch
from torch import nn

batch_size = 8192
features = 512


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        widths = (features, 1024, 1024, 512, 256)
        layers: list[nn.Module] = []
        for narrow, wide in pairwise(widths):
            layers += [nn.Linear(narrow, wide), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], 1), nn.Sigmoid())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
