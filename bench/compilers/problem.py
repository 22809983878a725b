"""The layer that all compilers compile, its inputs, and what it should give."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any, NamedTuple

VARIANTS = ("gelu", "silu", "tanh", "square")
"""The activations. The first is what a cold process compiles, the others are new epilogues in a warm one."""

M, N, K = 1000, 1024, 512
"""A rest in M, which all handle; N is a multiple of every tile."""

TILE_M, TILE_N, TILE_K = 128, 256, 64

TOLERANCE = 8e-3
"""Relative Frobenius error: the roundings of bf16 inputs and outputs, four of them at most."""


class Tensors(NamedTuple):
    """x [M, K], w [N, K], b [N], all bf16 on the GPU."""

    x: Any
    w: Any
    b: Any


@cache
def tensors() -> Tensors:
    """Random inputs, the same ones in all calls of a process."""
    torch: Any = importlib.import_module("torch")
    x, w, b = (torch.randn(s, device="cuda").bfloat16() for s in ((M, K), (N, K), (N,)))
    return Tensors(x, w * K**-0.5, b)


def activation(variant: int) -> Any:
    """The activation as a function of torch tensors."""
    torch: Any = importlib.import_module("torch")
    functional = torch.nn.functional
    return {
        "gelu": functional.gelu,
        "silu": functional.silu,
        "tanh": torch.tanh,
        "square": torch.square,
    }[VARIANTS[variant]]


def error(variant: int, y: Any) -> float:
    """The relative Frobenius distance of y to the layer in float64; infinite if y is not finite."""
    x, w, b = (t.double() for t in tensors())
    exact = activation(variant)(x @ w.T + b)
    distance = float((y.double() - exact).norm() / exact.norm())
    return distance if distance == distance else float("inf")
