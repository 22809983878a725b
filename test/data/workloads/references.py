"""What the programs of this folder compute, by PyTorch in float64, at odd small sizes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from described import Reference
from torch import Tensor


def blocks(x: Tensor, scales: Tensor) -> Tensor:
    """Repeat the scale of each block of 128 over its elements, and multiply."""
    rows = x.shape[0] // scales.shape[0]
    return x * scales.repeat_interleave(rows, 0).repeat_interleave(128, 1)


def norm_swiglu(x: Tensor, scale: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    h = F.rms_norm(x, (x.shape[-1],), scale, 1e-5)
    return x + (F.silu(F.linear(h, gate)) * F.linear(h, up)) @ down.T


def residual_rms_norm(x: Tensor, r: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    s = x + r
    return F.rms_norm(s, (s.shape[-1],), g, 1e-6), s


def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    shared = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(shared, 1) for t in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def moe_gate_up(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    parts: list[Tensor] = []
    start = 0
    for expert, end in enumerate(ends.int().tolist()):
        gate, up = F.linear(x[start:end], w[expert]).chunk(2, -1)
        parts.append(F.silu(gate) * up)
        start = end
    return torch.cat(parts)


def rotary(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    c, s = (torch.cat((t, t), -1)[:, None] for t in (c, s))
    return x * c + turned * s


def qkv_split(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    parts = F.linear(x, w, b).chunk(3, -1)
    return [p.reshape(len(x), -1, 64).transpose(0, 1) for p in parts]


def top_k(logits: Tensor) -> tuple[Tensor, Tensor]:
    p, at = torch.topk(logits.softmax(-1), 4)
    return p / p.sum(-1, keepdim=True), at


def row_quantisation(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(1).clamp_min(1e-8) / 127
    return torch.round(x / scale[:, None]), scale


def philox_uniform(count: int, seed: int) -> Tensor:
    """Draw uniform numbers by Philox4x32-10, word by word in Python's integers."""
    drawn: list[float] = []
    for block in range(-(-count // 4)):
        a, b, c, d = block & 0xFFFFFFFF, block >> 32, 0, 0
        k, l = seed & 0xFFFFFFFF, 0  # noqa: E741
        for _ in range(10):
            p, q = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = q >> 32 ^ b ^ k, q & 0xFFFFFFFF, p >> 32 ^ d ^ l, p & 0xFFFFFFFF
            k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF  # noqa: E741
        drawn += [(word >> 8) * 2.0**-24 for word in (a, b, c, d)]
    return torch.tensor(drawn[:count], dtype=torch.float64)


def dropout_residual(x: Tensor, r: Tensor, seed: Tensor) -> Tensor:
    keep = philox_uniform(x.numel(), int(seed)).reshape(x.shape) >= 0.1
    return r + torch.where(keep, x / 0.9, 0.0)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target.long())


def of_norm(x: Tensor, *weights: Any) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), *weights)


M, MN, MNK = {"M": 5}, {"M": 5, "N": 7}, {"M": 5, "N": 7, "K": 13}
HEADS = {"B": 2, "H": 3, "S": 7, "D": 5}

REFERENCES: dict[str, Reference] = {
    "linear_gelu_residual": Reference(lambda x, w, b, r: F.gelu(F.linear(x, w, b)) + r, MNK),
    "batched_shared": Reference(lambda x, w: x @ w, MNK | {"B": 3}),
    "int8_scales": Reference(lambda x, w, sx, sw, b: sx[:, None] * (x @ w.T) * sw + b, MNK),
    "fp8_blocks": Reference(
        lambda x, w, sx, sw: blocks(x, sx) @ blocks(w, sw).T, {"M": 3, "N": 256, "K": 384}
    ),
    "lora": Reference(lambda x, w, a, b, alpha: x @ (w + alpha / 3 * (b @ a)).T, MNK | {"R": 3}),
    "norm_swiglu": Reference(norm_swiglu, {"M": 5, "D": 13, "H": 9}),
    "product_softmax": Reference(lambda x, w: F.linear(x, w).softmax(-1), MNK),
    "product_layer_norm": Reference(lambda x, w, b, g, s: of_norm(F.linear(x, w, b), g, s), MNK),
    "residual_rms_norm": Reference(residual_rms_norm, {"M": 5, "D": 13}),
    "cross_entropy": Reference(cross_entropy, {"M": 5, "V": 37}),
    "causal_attention": Reference(causal, HEADS),
    "causal_attention_kernel": Reference(causal, HEADS),
    "grouped_query_attention": Reference(
        grouped_query_attention, {"B": 2, "H": 3, "G": 2, "S": 5, "T": 7, "D": 9}
    ),
    "moe_gate_up": Reference(moe_gate_up, {"T": 17, "E": 4, "N": 5, "K": 9}),
    "convolution": Reference(
        lambda x, w, b: F.relu(F.conv2d(x, w, b, padding=1)),
        {"N": 2, "C": 3, "O": 5, "H": 7, "W": 9},
    ),
    "transposed_convolution": Reference(
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        {"N": 2, "C": 3, "O": 5},
    ),
    "depthwise_convolution": Reference(
        lambda x, w: F.silu(F.conv2d(x, w, padding=1, groups=32)),
        {"N": 2, "H": 7, "W": 9},
    ),
    "pools": Reference(
        lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)),
        {"N": 2, "C": 3},
    ),
    "cumulative_sum": Reference(lambda x: x.cumsum(1), MN),
    "row_softmax": Reference(lambda x, t: (x / t).softmax(1), MN),
    "row_layer_norm": Reference(of_norm, MN),
    "odd_reductions": Reference(
        lambda x: (x.var(-1, correction=0), x.amax((0, 1)) - x.amin((0, 1)), (x > 0).sum((1, 2))),
        {"B": 3, "M": 5, "N": 7},
    ),
    "products_and_places": Reference(lambda x: (x.prod(0), x.argmax(1)), MN),
    "rotary": Reference(rotary, {"B": 2, "S": 5, "H": 3, "D": 6}),
    "qkv_split": Reference(qkv_split, {"T": 5, "D": 9, "H": 3}),
    "top_k": Reference(top_k, {"T": 7, "E": 11}),
    "dropout_residual": Reference(dropout_residual, MN),
    "row_quantisation": Reference(row_quantisation, MN),
    "mean_projection": Reference(lambda x, w, b: F.linear(x.mean(1), w, b), {"B": 3, "S": 5, "D": 9, "N": 7}),
}
"""By program."""
