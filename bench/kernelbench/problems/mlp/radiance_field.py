"""A small deep MLP over many samples, as of a radiance field: narrow layers, memory matters."""

import torch
from torch import nn

samples = 65536
features = 64
width = 256
outputs = 4


class Model(nn.Module):
    def __init__(self, features: int, width: int, outputs: int):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width, width)
        self.last = nn.Linear(width, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        x = torch.relu(self.third(x))
        return self.last(x)


def get_inputs():
    return [torch.rand(samples, features)]


def get_init_inputs():
    return [features, width, outputs]
