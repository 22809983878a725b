"""A block of causal attention with layer normalisation, and an embedding before it."""

import torch
from torch import nn

batch_size = 2
length = 64
heads = 4
width = 128
words = 1000


class Model(nn.Module):
    def __init__(self, words: int, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(words, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).split(width, dim=2)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(batch, length, width))


def get_inputs():
    return [torch.randint(0, 500, (batch_size, length))]


def get_init_inputs():
    return [words, width, heads]
