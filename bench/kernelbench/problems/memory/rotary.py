"""Rotary embedding of queries."""

import torch
from torch import nn

batch_size = 4
heads = 32
tokens = 2048
width = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * cos + turned * sin


def get_inputs():
    return [
        torch.randn(batch_size, heads, tokens, width),
        torch.rand(tokens, width),
        torch.rand(tokens, width),
    ]


def get_init_inputs():
    return []
