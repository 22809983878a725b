"""Random layers: products and convolutions with norms and reductions behind, whose kernels join."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator
from dataclasses import replace
from math import prod
from unittest.mock import patch

from bench.fuzz.chains import element, pooled, smooth, written
from bench.fuzz.drawing import LARGEST, Chain, Dim, Unfit, Value, needs, number, times, tupled

ROWS: tuple[Dim, ...] = ("M", "M", "M", 1, 2, 63, 64, 65, "2*M")
COLUMNS = (1, 4, 30, 32, 48, 64, 96, 128, 128, 192, 256, 256, 320, 384, 512, 512, 768)
DEPTHS = (8, 8, 8, 16, 24, 1, 4)
WIDTHS = (1, 2, 4, 6, 8, 8, 16, 16, 24, 32, 32, 64, 64, 128, 256)
"""Columns of groups."""

JOINED = "// kernels join, whatever it saves\n"
"""The first line of programs that are compiled `of_any_size`."""

DTYPES = ("f32", "bf16", "f16")


def product(c: Chain) -> Value:
    """Draw a product of matrices, which may have a batch."""
    m, k, n, dtype = c.pick(ROWS), c.pick(DEPTHS), c.pick(COLUMNS), c.pick(DTYPES)
    lead = (c.pick((1, 2, 3)),) if c.chance(0.15) else ()
    x, inner = c.param((*lead, m, k), dtype), lead if c.chance(0.5) else ()
    if c.chance(0.6):
        w = c.param((*inner, n, k), dtype, " ")
        w = replace(w, text=f"{w.text}.T")
    else:
        w = c.param((*inner, k, n), dtype)
    text = f"({x.text} @ {w.text})"
    if dtype == "f32" and c.chance(0.5):
        text = f"matmul({x.text}, {w.text}, compute={c.pick(('f32', 'tf32', 'tf32', 'tf32x3'))})"
    return Value(text, (*lead, m, n), dtype, True)


def convolution(c: Chain) -> Value:
    """Draw a convolution of few positions."""
    dtype, rank = c.pick(DTYPES), c.pick((2, 2, 2, 1, 3))
    n: Dim = c.pick(("N", "N", 1, 2, 3))
    groups = c.pick((1, 1, 1, 2, 4))
    channels, outputs = groups * c.pick((1, 3, 4, 8)), groups * c.pick((1, 2, 4, 8, 16))
    places = [c.pick((1, 2, 5, 7, 8, 16)) for _ in range(rank)]
    size = [c.pick((1, 2, 3)) for _ in range(rank)]
    stride, pad = [c.pick((1, 1, 2)) for _ in size], [c.pick((0, 1)) for _ in size]
    options = f", stride={tupled(stride)}, pad={tupled(pad)}, groups={groups}"
    last = c.chance(0.3)
    if last:
        order = (0, rank + 1, *range(1, rank + 1))
        x = c.param((n, *places, channels), dtype)
        x = replace(x, text=f"permute({x.text}, {tupled(order)})")
    else:
        x = c.param((n, channels, *places), dtype)
    if c.chance(0.25):
        w = c.param((channels, outputs // groups, *size), dtype)
        found = [(p - 1) * s - 2 * q + k for p, k, s, q in zip(places, size, stride, pad, strict=True)]
        text = f"conv_transpose({x.text}, {w.text}{options})"
    else:
        w = c.param((outputs, channels // groups, *size), dtype)
        found = [(p + 2 * q - k) // s + 1 for p, k, s, q in zip(places, size, stride, pad, strict=True)]
        text = f"conv({x.text}, {w.text}{options})"
    made = Value(text, (n, outputs, *found), dtype, True)
    needs(min(found) >= 1 and made.count <= 2 * LARGEST)
    return made


def affine(c: Chain, v: Value) -> Value:
    """Scale, shift or clamp by a tensor with the extents of some of the axes, or by a scalar."""
    needs(v.rank >= 1)
    dims = [d if c.chance(0.4) else 1 for d in v.dims]
    match c.pick(("last", "channels", "any", "all", "scalar")):
        case "last":
            dims = [v.dims[-1]]
        case "channels" if v.rank >= 3:
            dims = [v.dims[1], *(1 for _ in v.dims[2:])]
        case "all":
            dims = list(v.dims)
        case "scalar":
            dims = list[Dim]()
        case _:
            pass
    other = c.other(tuple(dims), c.pick(("f32", v.dtype)))
    text = c.pick(("({} + {})", "({} * {})", "({} - {})", "max({}, {})")).format(v.text, other.text)
    return Value(text, v.dims, "f32" if other.dtype != v.dtype else v.dtype, True)


def _inner(c: Chain, v: Value, kinds: tuple[str, ...], axes: str) -> Value:
    text = f"{c.pick(kinds)}({v.text}, axis={axes})"
    return replace(v, text=text, rough=True)


NORMS = ("softmax", "log_softmax", "layer_norm", "rms_norm", "layer_norm")
SINGLE = ("sum", "mean", "max", "min", "prod", "logsumexp", "logsumexp", "var", "amax")


def rows(c: Chain, v: Value) -> Value:
    """Normalise along the last axis, by a norm or by one written out."""
    needs(v.rank >= 1)
    if c.chance(0.6):
        return _inner(c, v, NORMS, "-1")
    return by_hand(c, v, "-1")


def by_hand(c: Chain, v: Value, axis: str) -> Value:
    """Reduce axes and combine the result with each element, as a norm that is written out does."""
    v = c.named(v, 0)
    kind = c.pick(SINGLE)
    inner = f"tanh({v.text})" if kind == "prod" else v.text
    s = f"{kind}({inner}, axis={axis}, keepdims=on)"
    text = c.pick(("({0} - {1})", "({0} / (1 + abs({1})))", "({0} * sigmoid({1}))", "max({0}, {1})"))
    return Value(text.format(v.text, s), v.dims, "f32", True)


def grouped(c: Chain, v: Value) -> Value:
    """Normalise groups of neighbouring elements of the last axis, and restore the shape."""
    needs(v.rank)
    n = number(v.dims[-1])
    width = c.pick([w for w in WIDTHS if n % w == 0])
    dims = (*v.dims[:-1], n // width, width)
    g = replace(v, text=f"reshape({v.text}, {tupled(dims)})", dims=dims)
    g = rows(c, g)
    if c.chance(0.4):
        g = affine(c, g)
    if c.chance(0.2):
        return reduced(c, g)
    if c.chance(0.2):
        return g
    return replace(g, text=f"reshape({g.text}, {tupled(v.dims)})", dims=v.dims)


def channels(c: Chain, v: Value) -> Value:
    """Normalise the result of a convolution: batch, group, instance or layer norm, or a softmax."""
    match c.pick(("batch", "group", "group", "instance", "layer", "softmax", "hand")):
        case "batch" if v.rank >= 2:
            text = f"batch_norm({v.text})"
        case "group" if v.rank >= 3:
            count = number(v.dims[1])
            groups = c.pick([g for g in range(1, count + 1) if count % g == 0])
            text = f"group_norm({v.text}, {groups})"
        case "instance" if v.rank >= 3:
            text = f"instance_norm({v.text})"
        case "softmax" if v.rank >= 2:
            text = f"{c.pick(NORMS)}({v.text}, axis=1)"
        case "hand" if v.rank >= 2:
            return by_hand(c, v, c.pick(("1", "0", tupled(tuple(range(1, v.rank))))))
        case _:
            needs(v.rank >= 3)
            text = f"layer_norm({v.text}, axis={tupled(tuple(range(1, v.rank)))})"
    return replace(v, text=text, rough=True)


def reduced(c: Chain, v: Value) -> Value:
    """Reduce the last axis, or all spatial axes."""
    needs(v.rank >= 1)
    axes = [v.rank - 1]
    if v.rank >= 3 and c.chance(0.5):
        axes = c.pick(([1], list(range(2, v.rank)), list(range(1, v.rank))))
    kind, kept = c.pick(SINGLE), c.chance(0.3)
    needs(kind != "var" or prod(v.sizes[a] for a in axes) > 1)
    inner = f"tanh({v.text})" if kind == "prod" else v.text
    text = f"{kind}({inner}, axis={tupled(axes)}{', keepdims=on' if kept else ''})"
    dims = tuple(1 if a in axes else d for a, d in enumerate(v.dims) if kept or a not in axes)
    return Value(text, dims, "f32", True)


def stored(c: Chain, v: Value) -> Value:
    """Round a value."""
    to = c.pick(DTYPES)
    return replace(v, text=f"cast({v.text}, {to})", dtype=to)


def flat(c: Chain, v: Value) -> Value:
    """Merge two neighbouring axes."""
    needs(v.rank >= 3)
    i = c.rng.randrange(v.rank - 1)
    dims = (*v.dims[:i], times(*v.dims[i : i + 2]), *v.dims[i + 2 :])
    return replace(v, text=f"reshape({v.text}, {tupled(dims)})", dims=dims)


BEHIND_PRODUCTS = (
    rows,
    rows,
    grouped,
    grouped,
    grouped,
    affine,
    affine,
    smooth,
    element,
    reduced,
    channels,
    stored,
    flat,
)
BEHIND_CONVOLUTIONS = (
    channels,
    channels,
    channels,
    affine,
    affine,
    smooth,
    pooled,
    reduced,
    rows,
    stored,
    flat,
)


def layer(seed: str) -> str:
    """Draw the text of a program: a product or a convolution, followed by 1 to 5 operations.

    Three of four are compiled `of_any_size`.
    """
    c = Chain(random.Random(seed))
    is_product = c.chance(0.55)
    while True:
        try:
            v = product(c) if is_product else convolution(c)
            break
        except Unfit:
            c.params.clear()
    v = c.named(v, 0.02) if c.chance(0.8) else v
    c.values.append(v)
    wanted = c.rng.randint(1, 5)
    while wanted:
        start = v if c.chance(0.92) else c.pick(c.values)
        before, lines = len(c.params), len(c.lines)
        try:
            made = c.pick(BEHIND_PRODUCTS if is_product else BEHIND_CONVOLUTIONS)(c, start)
        except Unfit:
            del c.params[before:], c.lines[lines:]
            continue
        wanted -= 1
        v = c.named(made, 0.02) if c.chance(0.8) else made
        c.values.append(v)
    others = [c.pick(c.values) for _ in range(c.pick((0, 0, 0, 0, 1, 2)))]
    return JOINED * c.chance(0.75) + written(c, [v, *others])


@contextlib.contextmanager
def of_any_size() -> Generator[None]:
    """Join kernels however small they are: what is decided by speed alone is decided for joining."""
    from mucc.kernels.conv import moments
    from mucc.kernels.conv.op import Strategy
    from mucc.kernels.gemm import column_groups

    with (
        patch.object(column_groups, "FEW", 0),
        patch.object(column_groups, "ROWS", 0),
        patch.object(moments, "LEAST", 0),
        patch.object(moments, "MOMENT_BYTES", dict.fromkeys(Strategy, -1.0)),
    ):
        yield
