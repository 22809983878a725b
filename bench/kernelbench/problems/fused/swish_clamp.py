"""A product with a chain of cheap functions: SiLU, division, clamping."""

import torch
from torch import nn

batch_size = 2048
features = 4096
hidden = 4096


class Model(nn.Module):
    def __init__(self, features: int, hidden: int, divisor: float):
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.silu(self.linear(x)) / self.divisor
        return torch.clamp(y, -1.0, 1.0)


def get_inputs():
    return [torch.randn(batch_size, features)]


def get_init_inputs():
    return [features, hidden, 2.0]
