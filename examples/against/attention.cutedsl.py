"""Attention in CuTe DSL: the kernel of FlashAttention-4, which chooses its tiles by width and card."""

from flash_attn.cute import flash_attn_func


def sdpa(q, k, v):
    return flash_attn_func(q.unsqueeze(2), k.unsqueeze(2), v.unsqueeze(2))[0].squeeze(2)
