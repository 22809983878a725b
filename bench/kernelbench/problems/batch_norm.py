"""Batch normalisation in training: by the batch's statistics, and the running ones move."""

import torch
from torch import nn

batch_size = 64
features = 256


class Model(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.linear = nn.Linear(features, features, bias=False)
        self.norm = nn.BatchNorm1d(features, momentum=0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)))


def get_inputs():
    return [torch.randn(batch_size, features) * 2 + 1]


def get_init_inputs():
    return [features]
