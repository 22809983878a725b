"""The mean cross entropy over the vocabulary of GPT-2."""

import torch
from torch import nn

tokens = 4096
vocabulary = 50257


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits, targets)


def get_inputs():
    return [torch.randn(tokens, vocabulary), torch.randint(0, vocabulary, (tokens,))]


def get_init_inputs():
    return []
