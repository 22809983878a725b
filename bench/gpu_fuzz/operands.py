"""Draft kernels whose operands in memory are views of what is computed: repeated, padded, joined, picked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import (
    FLOATS,
    gathered,
    in_order,
    kept_over,
    pooled,
    scattered,
    softmax,
    taken_along,
)
from bench.gpu_fuzz.contractions import factor, matmul
from bench.gpu_fuzz.convolutions import windows_of
from bench.gpu_fuzz.drafts import FEW, Dims, Draft, Env, Expr, root
from bench.gpu_fuzz.parts import moved
from bench.gpu_fuzz.pointwise import chain, results, scanned
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch

NUMBERS = (8, 1, 2, 3, 5, 12, 16, 24)
"""Extents of axes along which elements move."""


def operands(d: Draft) -> None:
    """Draft a kernel that reads views of something computed from memory."""
    kind = d.c.pick(
        ("conv", "conv", "gather", "scatter", "columns", "product", "pool", "rows", "scan", "sort")
    )
    dtype = d.c.pick(FLOATS)
    if kind in ("conv", "pool"):
        x = viewed(
            d, (d.dim("N", FEW), d.c.pick((4, 1, 2, 8)), d.c.pick((8, 4, 5)), d.c.pick((8, 5, 6))), dtype
        )
        y = convolved(d, x) if kind == "conv" else pooled(d, x)
        results(d, chain(d, y, 2))
        return
    x = viewed(d, (d.c.pick(NUMBERS), d.c.pick(NUMBERS)), dtype)
    rows = x.dims[0]
    match kind:
        case "gather":
            results(d, chain(d, gathered(d, x, (d.dim("M"),)), 2))
        case "scatter":
            scattered(d, x, rows)
        case "columns":
            results(d, chain(d, taken_along(d, x, (rows, d.dim("J", FEW)), 1), 1))
        case "product":
            w = viewed(d, (x.dims[1], d.c.pick(NUMBERS)), x.dtype, root(x.dims[1]))
            if w.dtype != x.dtype or w.dims[0] != x.dims[1]:
                w = d.tensor((x.dims[1], 8), x.dtype, stem="w", scale=root(x.dims[1]))
            results(d, chain(d, matmul(x, w, (rows, w.dims[1])), 2))
        case "rows":
            y = (
                softmax(d, x, d.c.pick((-1, 0)))
                if d.c.chance(1, 2)
                else kept_over(d, x, "sum", d.c.pick((-1, 0)))
            )
            results(d, chain(d, y, 2))
        case "scan":
            results(d, scanned(d, x))
        case _:
            results(d, chain(d, in_order(d, x, d.c.number(2), None), 1))


def viewed(d: Draft, dims: Dims, dtype: str, scale: Callable[[Env], float] = lambda env: 1.0) -> Expr:
    """Return a computed tensor of which elements are repeated, and moved."""
    given = tuple(d.c.pick((e, e, 1)) if isinstance(e, int) else e for e in dims)
    x = chain(d, d.tensor(given, dtype, stem="x", scale=scale), 2)
    if given != dims:
        x = repeated(x, dims)
    for _ in range(d.c.number(3)):
        x = moved(d, d.named(x) if d.c.chance(1, 2) else x)
    return d.named(x)


def repeated(x: Expr, dims: Dims) -> Expr:
    """Return a tensor broadcast to other extents."""

    def compute(env: Env) -> Bounded:
        shape = tuple(env.extent(dim) for dim in dims)
        return Bounded(*(part.expand(shape) for part in x.value(env)))

    return Expr(f"broadcast({x.text}, ({', '.join(map(str, dims))}))", x.dtype, dims, compute)


def convolved(d: Draft, x: Expr) -> Expr:
    """Return the convolution of two spatial axes with weights that may be repeated."""
    batch, channels, *extents = x.dims
    sizes = [d.c.pick([s for s in (3, 1, 2) if s <= extent]) for extent in extents if isinstance(extent, int)]
    if len(sizes) < 2 or not isinstance(channels, int):
        return x  # an axis whose extent has a name is none of a convolution's here
    outputs = d.c.pick((8, 1, 3, 16))
    whole = (outputs, channels, *sizes)
    given = tuple(d.c.pick((e, e, e, 1)) for e in whole)
    w = d.tensor(given, x.dtype, stem="w", scale=root(channels * sizes[0] * sizes[1]), layout="row")
    w = repeated(w, whole) if given != whole else w
    places = [e - s + 1 for e, s in zip(extents, sizes, strict=True) if isinstance(e, int)]

    def compute(env: Env) -> Bounded:
        a, b = factor(x, env), w.value(env)
        windows = [
            windows_of(part, sizes, (1, 1), (1, 1)).movedim(1, 3).flatten(3).flatten(1, 2) for part in a
        ]
        weights = [part.flatten(1).mT for part in b]
        made = ref.product(Bounded(*windows), Bounded(*weights), "tf32" if x.dtype == "f32" else "16")
        return env.passed(Bounded(*(part.mT.unflatten(2, places) for part in made)), x.dtype)

    return Expr(f"conv({x.text}, {w.text})", x.dtype, (batch, outputs, *places), compute)
