"""Forms without a GEMM: pointwise operations, reductions, scans, sorts, norms, gathers, views, integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import (
    FLOATS,
    floating,
    gathered,
    in_order,
    norm,
    pooled,
    scattered,
    softmax,
    swapped,
    taken_along,
    with_axis,
)
from bench.gpu_fuzz.drafts import EXTENTS, FEW, Dims, Draft, Env, Expr, shape_of
from bench.gpu_fuzz.pointwise import (
    FUNCTIONS,
    MULTIPLY,
    Function,
    binary,
    chain,
    reduced,
    results,
    scanned,
    unary,
)
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch


def some_dims(d: Draft, shortest: int = 1) -> Dims:
    """Dims of a tensor that no product is part of."""
    names = ("B", "H", "M", "N")[-(shortest + d.c.number(5 - shortest)) :]
    return tuple(d.dim(n, FEW if n in "BH" else EXTENTS) for n in names)


def pointwise(d: Draft) -> None:
    """Draft a kernel of pointwise operations."""
    dims = some_dims(d)
    x = d.tensor(dims, d.c.pick(FLOATS), stem="x")
    y = chain(d, x, 5)
    if y is x:
        y = unary(x, d.c.pick(FUNCTIONS))
    if len(dims) >= 2 and d.c.chance(1, 5):
        y = Expr(f"{y.text}.T", y.dtype, (*dims[:-2], dims[-1], dims[-2]), swapped(y))
    results(d, y)


SORTED = (16, 2, 3, 32, 33, 64, 129, 500, 1000, 2049, 4096)
PIXELS = {1: (16, 1, 2, 33, 128, 1000, 5003), 2: (16, 1, 7, 30, 56, 129), 3: (8, 1, 5, 12, 20)}
"""Extents of pooled axes, by their number."""
LONG = (16, 1, 2, 33, 64, 129, 500, 1000, 2049, 4096, 5003)


def scans(d: Draft) -> None:
    """Draft running sums and products, with pointwise work before and behind."""
    names = ("B", "M", "N")[-(1 + d.c.number(3)) :]
    long = d.c.pick(names)
    dims = tuple(d.dim(n, LONG if n == long else FEW) for n in names)
    x = d.tensor(dims, d.c.pick(FLOATS), stem="x")
    y = chain(d, scanned(d, chain(d, x, 2)), 3)
    results(d, y)


def sorts(d: Draft) -> None:
    """Draft sorted rows, or their largest elements, with pointwise work behind, and where they come from."""
    names = ("B", "M", "N")[-(1 + d.c.number(3)) :]
    axis = d.c.number(len(names))
    dims = tuple(d.dim(n, SORTED if i == axis else FEW) for i, n in enumerate(names))
    x = d.tensor(dims, d.c.pick(FLOATS), stem="x")
    count = d.c.pick((None, None, 1, 2))
    y = in_order(d, x, axis, count)
    results(d, chain(d, y, 2))
    if d.c.chance(1, 2):
        d.result(in_order(d, x, axis, count, positions=True), "s32")


def pools(d: Draft) -> None:
    """Draft pools with pointwise work before and behind, of channels that are adjacent too."""
    rank = 1 + d.c.number(3)
    n, c = d.dim("N", FEW), d.dim("C", FEW if rank > 1 else EXTENTS)
    spatial = tuple(d.c.pick(PIXELS[rank]) for _ in range(rank))
    x = d.tensor((n, c, *spatial), d.c.pick(FLOATS), stem="x")
    results(d, chain(d, pooled(d, chain(d, x, 2)), 2))


def reductions(d: Draft) -> None:
    """Draft reductions of a tensor over any axes."""
    dims = some_dims(d)
    x = chain(d, d.tensor(dims, d.c.pick(FLOATS), stem="x"), 2)
    x = d.named(x)
    for _ in range(1 + d.c.number(2)):
        d.result(reduced(d, x, ("sum", "max", "min", "amax")), "f32")
    if d.c.chance(1, 4):
        d.result(x, floating(x))


def norms(d: Draft) -> None:
    """Draft softmax, log_softmax or a norm with weights."""
    dims = some_dims(d)
    last = dims[-1]
    if isinstance(last, str) and d.dims[last] is None:
        d.dims[last] = d.c.pick(EXTENTS)  # means need numbers
    x = d.tensor(dims, d.c.pick(FLOATS), stem="x")
    match d.c.pick(("softmax", "log_softmax", "layer_norm", "rms_norm")):
        case "softmax":
            y = softmax(d, x, d.c.pick((-1, -1, 0)))
        case "log_softmax":
            y = softmax(d, x, d.c.pick((-1, -1, 0)), logarithm=True)
        case kind:
            y = norm(d, x, kind)
    if d.c.chance(1, 2):
        y = binary(MULTIPLY, y, d.tensor((last,), d.c.pick(("f32", "bf16")), stem="r"), dims)
    results(d, chain(d, y, 1))


def rows(d: Draft) -> None:
    """Draft gathers, scatters and reductions of rows."""
    t, m, n = d.dim("T"), d.dim("M"), d.dim("N")
    dtype = d.c.pick(("bf16", "f16", "f32"))
    x = d.tensor((t, n), dtype, stem="x")
    match d.c.pick(("gather", "combine", "scatter", "take_along")):
        case "take_along":
            axis = d.c.number(2)
            dims = (d.dim("J", FEW), n) if axis == 0 else (t, d.dim("J", FEW))
            results(d, chain(d, taken_along(d, chain(d, x, 2), dims, axis), 1))
        case "gather":
            results(d, chain(d, gathered(d, x, (m,)), 2))
        case "combine":
            j = d.dim("J", FEW)
            g = gathered(d, x, (m, j))
            p = d.tensor((m, j), "f32", stem="p")
            spread = with_axis(p, 2)
            g = binary(MULTIPLY, g, spread, g.dims)

            def compute(env: Env) -> Bounded:
                return ref.reduce("sum", g.value(env), (1,))

            results(d, Expr(f"sum({g.text}, axis=1)", "f32", (m, n), compute))
        case _:
            scattered(d, chain(d, x, 1), t)


def views(d: Draft) -> None:
    """Draft maps and reductions of permuted and reshaped tensors."""
    b, m, n = d.c.pick((2, 1, 3, 4)), d.dim("M"), d.c.pick((8, 1, 2, 3, 5, 12, 16, 30))
    x = d.tensor((b, m, n), d.c.pick(FLOATS), stem="x")
    match d.c.pick(("permute", "merge", "split")):
        case "permute":
            order = d.c.pick(((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1), (1, 2, 0)))
            y = Expr(
                f"permute({x.text}, {order})",
                x.dtype,
                tuple(x.dims[i] for i in order),
                lambda env: Bounded(*(t.permute(order) for t in x.value(env))),
            )
        case "merge":
            turned = Expr(
                f"{x.text}.T" if "." not in x.text else f"({x.text}).T", x.dtype, (b, n, m), swapped(x)
            )
            shape: Dims = (b * n, m)
            y = Expr(
                f"reshape({turned.text}, ({b * n}, {m}))",
                x.dtype,
                shape,
                lambda env: Bounded(*(t.reshape(shape_of(env, shape)) for t in turned.value(env))),
            )
        case _:
            split: Dims = (b, m, 1, n)
            y = Expr(
                f"reshape({x.text}, ({b}, {m}, 1, {n}))",
                x.dtype,
                split,
                lambda env: Bounded(*(t.reshape(shape_of(env, split)) for t in x.value(env))),
            )
    results(d, chain(d, y, 2))


def integers(d: Draft) -> None:
    """Draft s32 arithmetic, which wraps around, and reductions of it."""
    dims = some_dims(d)
    kind = d.c.pick(("integer", "large integer"))
    y = d.tensor(dims, "s32", stem="i", kind=kind)
    for _ in range(1 + d.c.number(3)):
        match d.c.pick(("binary", "number", "unary", "mask")):
            case "binary":
                other = d.tensor(d.c.pick((dims, dims[-1:])), "s32", stem="i", kind=kind)
                y = wrapped(d.c.pick(INTEGER_BINARY), y, other)
            case "number":
                value = d.c.pick((2, 3, 1000003))
                other = Expr(str(value), "s32", (), lambda env, v=value: ref.exact(torch.tensor(float(v))))
                y = wrapped(d.c.pick(INTEGER_BINARY), y, other)
            case "unary":
                y = wrapped(d.c.pick(INTEGER_UNARY), y)
            case _:
                keep = d.tensor(dims[-1:], "f32", stem="k")
                y = _kept(keep, y)
    y = d.named(y)
    d.result(y, "s32")
    if d.c.chance(1, 2):
        total = reduced(d, y, ("sum", "max", "min"))
        d.result(Expr(total.text, "s32", total.dims, _wrapping(total)), "s32")
    if d.c.chance(1, 4):
        d.result(Expr(f"cast({y.text}, f32)", "f32", y.dims, y.compute), "f32")


INTEGER_BINARY = (
    Function("({} + {})", "x + y"),
    Function("({} - {})", "x - y"),
    Function("({} * {})", "x * y"),
    Function("max({}, {})", "torch.maximum(x, y)"),
    Function("min({}, {})", "torch.minimum(x, y)"),
    Function("bitwise_and({}, {})", "x & y"),
    Function("bitwise_or({}, {})", "x | y"),
    Function("bitwise_xor({}, {})", "x ^ y"),
    Function("{} % (bitwise_and({}, 1023) + 1)", "x % ((y & 1023) + 1)"),
    Function("left_shift({}, {})", "torch.bitwise_left_shift(x, y)"),
    Function("right_shift({}, {})", "torch.bitwise_right_shift(x, y)"),
)


INTEGER_UNARY = (
    Function("-{}", "-x"),
    Function("abs({})", "torch.abs(x)"),
    Function("relu({})", "torch.relu(x)"),
    Function("clamp({}, -7, 100000)", "x.clamp(-7, 100000)"),
    Function("bitwise_not({})", "~x"),
    Function("sign({})", "torch.sign(x)"),
    Function("({} % -7)", "x % -7"),
    Function("fmod({}, 1000)", "torch.fmod(x, 1000)"),
    Function("floor_divide({}, -3)", "torch.floor_divide(x, -3)"),
)


def wrapped(function: Function, *operands: Expr) -> Expr:
    """A function of integers, computed by PyTorch's own of 32 bits."""

    def compute(env: Env) -> Bounded:
        values = [o.value(env).value.to(torch.int64).to(torch.int32) for o in operands]
        return ref.exact(function(*values))

    text = function.text.format(*(o.text for o in operands))
    return Expr(f"({text})", "s32", operands[0].dims, compute)


def _wrapping(y: Expr) -> Callable[[Env], Bounded]:
    """The low 32 bits of whole numbers."""
    return lambda env: ref.exact(y.value(env).value.to(torch.int64).to(torch.int32))


def _kept(keep: Expr, y: Expr) -> Expr:
    def compute(env: Env) -> Bounded:
        chosen = keep.value(env).value > 0
        return ref.exact(torch.where(chosen, y.value(env).value, 5.0))

    return Expr(f"where({keep.text} > 0, {y.text}, 5)", "s32", y.dims, compute)
