"""The last product of GPT-2: an odd number of columns."""

import torch
from torch import nn

tokens = 1024
hidden = 768
vocabulary = 50257


class Model(nn.Module):
    def __init__(self, hidden: int, vocabulary: int):
        super().__init__()
        self.head = nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x)


def get_inputs():
    return [torch.randn(tokens, hidden)]


def get_init_inputs():
    return [hidden, vocabulary]
