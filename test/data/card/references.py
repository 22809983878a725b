"""What the descriptions of this folder say, by PyTorch in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from described import Reference
from torch import Tensor


def centred(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / (x.std(1, correction=0, keepdim=True) + 1e-5)


def two_results(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = F.linear(x, w)
    return y, y.abs().amax(1)


def experts(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    group = torch.searchsorted(ends, torch.arange(len(x), dtype=ends.dtype), right=True)
    return torch.einsum("tk,tnk->tn", x, w[group])


def heads(x: Tensor) -> Tensor:
    return torch.stack(x.chunk(4, -1), 1)


def own_function(x: Tensor) -> Tensor:
    return F.softplus(2 * x) * F.softplus(-2 * x)


M, MN, MNK = {"M": 5}, {"M": 5, "N": 7}, {"M": 5, "N": 7, "K": 11}

REFERENCES: dict[str, Reference] = {
    "add_rows": Reference(lambda x, v: (x.T + v).T, MN),
    "add_columns": Reference(lambda x, b: (x + b).clamp_min(0), MN),
    "linear": Reference(F.linear, {"M": 5, "N": 8, "K": 16}),
    "scaled_product": Reference(lambda a, b, c, s, t: torch.addmm(c, a, b) * s + (t - s) * c, MNK),
    "left_transposed": Reference(lambda a, b: torch.einsum("km,kn->mn", a, b), MNK),
    "matrix_vector": Reference(torch.mv, {"M": 5, "K": 11}),
    "gated": Reference(lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), MNK),
    "gated_halves": Reference(F.glu, MN),
    "two_layers": Reference(
        lambda x, a, b: F.linear(F.gelu(F.linear(x, a), approximate="tanh"), b), {"M": 5, "D": 9}
    ),
    "row_sums": Reference(lambda x: x.square().sum(1), MN),
    "row_max": Reference(lambda x: x.max(1, keepdim=True).values, MN),
    "mean_squared_error": Reference(F.mse_loss, MN),
    "centred": Reference(centred, MN),
    "softmax_temperature": Reference(lambda x, t: (x / t).softmax(-1), MN),
    "layer_norm_affine": Reference(lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, 1e-6), MN),
    "two_results": Reference(two_results, MNK),
    "causal_mask": Reference(
        lambda x: x.masked_fill(torch.ones_like(x).triu(1).bool(), -torch.inf), {"M": 7}
    ),
    "clipped": Reference(lambda x, s: (x / s[:, None]).round().clamp(-127, 127), MN),
    "between": Reference(
        lambda x, lo, hi: torch.where((x > lo) & (x < hi), x, 0.0), MN, lambda x, lo, hi: (x, -lo, hi)
    ),
    "joined": Reference(lambda x, z: torch.cat((x, z), 1), MNK),
    "heads": Reference(heads, {"B": 2, "S": 5, "D": 3}),
    "embedding": Reference(
        lambda table, ids, position: F.embedding(ids.long(), table) + position, {"V": 9, "T": 5, "D": 7}
    ),
    "picked": Reference(lambda x, at: x[torch.arange(len(x)), at.long()], MN),
    "best": Reference(lambda x: tuple(torch.topk(x, 3)), MN),
    "sums_before": Reference(lambda x: x.cumsum(1) - x, MN),
    "attention_heads": Reference(F.scaled_dot_product_attention, {"B": 2, "M": 5, "N": 7}),
    "mean_then_product": Reference(lambda x, w: F.linear(x.mean(1), w), {"B": 3, "S": 5, "D": 9, "N": 7}),
    "eight_bits": Reference(lambda x, w, sx, sw: torch.einsum("mk,nk,m,n->mn", x, w, sx, sw), MNK),
    "own_function": Reference(own_function, MN),
    "experts": Reference(experts, {"T": 17, "N": 5, "K": 9, "E": 4}),
}
"""By program."""
