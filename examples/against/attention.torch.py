"""Attention in PyTorch: its own kernel, instead of products and a softmax."""

import torch


def sdpa(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
