"""The place of the largest logit of each token."""

import torch
from torch import nn

tokens = 4096
vocabulary = 50257


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.argmax(dim=-1)


def get_inputs():
    return [torch.randn(tokens, vocabulary)]


def get_init_inputs():
    return []
