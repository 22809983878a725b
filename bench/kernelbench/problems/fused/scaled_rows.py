"""A product whose rows are scaled and shifted by vectors of their own, then squared ReLU."""

import torch
from torch import nn

tokens = 2048
features = 2560
hidden = 10240


class Model(nn.Module):
    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.linear = nn.Linear(features, hidden, bias=False)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) * scale[:, None]
        return torch.relu(y).square()


def get_inputs():
    return [torch.randn(tokens, features), torch.rand(tokens)]


def get_init_inputs():
    return [features, hidden]
