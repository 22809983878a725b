"""Three linear layers with a residual connection."""

import torch
from torch import nn

batch_size = 128
width = 256
hidden = 1024


class Model(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def get_inputs():
    return [torch.randn(batch_size, width)]


def get_init_inputs():
    return [width, hidden]
