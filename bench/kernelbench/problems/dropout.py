"""Dropout in training: torch's random numbers between two products."""

import torch
from torch import nn

batch_size = 64
features = 256


class Model(nn.Module):
    def __init__(self, features: int, p: float):
        super().__init__()
        self.first = nn.Linear(features, features)
        self.drop = nn.Dropout(p)
        self.second = nn.Linear(features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.drop(torch.tanh(self.first(x))))


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, 0.25]
