"""The share of the rate of products that attention reaches: PyTorch's best backend, and kernels of mucc.

Measured on an H200 in bf16 and f16 (`bench/results/h200/attention.json`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Shares(NamedTuple):
    """Shares of attention without a mask: of PyTorch's best backend, and of mucc."""

    torch: float
    mucc: float


F32 = Shares(0.085, 0.19)
"""Those of f32 as tf32: 1,024 to 4,096 keys, 64 and 128 elements, on an H100."""

MASKED = 0.8
"""What is left of PyTorch's share where a mask is read: cuDNN takes 215 us for what takes 170 without one
(decision 49)."""

FULL: Mapping[int, Mapping[int, tuple[float, float]]] = {
    64: {
        512: (0.52, 0.54),
        1024: (0.58, 0.60),
        2048: (0.62, 0.69),
        8192: (0.64, 0.75),
    },
    96: {
        512: (0.55, 0.61),
        1024: (0.62, 0.69),
        2048: (0.67, 0.74),
        8192: (0.70, 0.78),
    },
    128: {
        512: (0.70, 0.70),
        1024: (0.81, 0.81),
        2048: (0.87, 0.87),
        8192: (0.9, 0.92),
    },
    256: {
        512: (0.71, 0.74),
        1024: (0.85, 0.88),
        2048: (0.88, 0.93),
        8192: (0.93, 0.98),
    },
}
CAUSAL: Mapping[int, Mapping[int, tuple[float, float]]] = {
    64: {
        512: (0.43, 0.42),
        1024: (0.45, 0.44),
        2048: (0.53, 0.57),
        8192: (0.60, 0.67),
    },
    96: {
        512: (0.44, 0.50),
        1024: (0.45, 0.53),
        2048: (0.53, 0.63),
        8192: (0.61, 0.71),
    },
    128: {
        512: (0.56, 0.58),
        1024: (0.58, 0.61),
        2048: (0.68, 0.73),
        8192: (0.8, 0.84),
    },
    256: {
        512: (0.58, 0.57),
        1024: (0.62, 0.63),
        2048: (0.73, 0.76),
        8192: (0.82, 0.89),
    },
}
"""Shares of PyTorch and of mucc by the extent of a head and the number of keys."""


def shares(head: int, keys: int, causal: bool) -> Shares:
    """Return the shares for a head's extent and a number of keys: those of the next entries that hold both.

    Fewer keys than were measured are taken to be no faster than PyTorch.
    """
    table = CAUSAL if causal else FULL
    row = table[next((h for h in table if head <= h), max(table))]
    found = Shares(*row[max((k for k in row if k <= keys), default=min(row))])
    return found if keys >= min(row) else Shares(found.torch, min(found))
