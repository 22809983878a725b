"""Causal attention with the heads of Llama 3 8B after its keys are repeated, in bf16."""

import torch
from torch import nn

batch_size = 2
heads = 32
tokens = 2048
width = 128


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [*(torch.randn(batch_size, heads, tokens, width, dtype=torch.bfloat16) for _ in range(3))]


def get_init_inputs():
    return []
