"""Draft reductions and scans along any axes, of floats and of integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.drafts import Dims, Draft, Env, Expr
from bench.gpu_fuzz.measures import log_sum, product_over, spread
from bench.gpu_fuzz.parts import listed
from bench.gpu_fuzz.pointwise import Function, unary
from bench.gpu_fuzz.reference import Bounded

torch: Any = ref.torch


def passed(y: Expr) -> Expr:
    """Return a value that may pass from one device kernel to another."""
    return Expr(y.text, y.dtype, y.dims, lambda env: env.passed(y.value(env), y.dtype))


def settled(y: Expr, env: Env) -> Bounded:
    """Return an operand that may pass from one kernel to another, but for a parameter and its views."""
    value = y.value(env)
    return env.passed(value, y.dtype) if bool((value.error != 0).any()) else value


def drawn_axes(d: Draft, rank: int) -> tuple[int, ...]:
    """Draw some axes, each from the front or from the back, in any order."""
    left = list(range(rank))
    chosen = [left.pop(d.c.number(len(left))) for _ in range(1 + d.c.number(rank))]
    return tuple(a - rank if d.c.chance(1, 3) else a for a in chosen)


def rest_of(dims: Dims, axes: Sequence[int], keep: bool) -> Dims:
    """Return the dims that a reduction leaves."""
    gone = {a % len(dims) for a in axes}
    return tuple(1 if i in gone else e for i, e in enumerate(dims) if keep or i not in gone)


def reduced(d: Draft, y: Expr) -> Expr:
    """Return a reduction over any axes."""
    rank = len(y.dims)
    axes, keep = drawn_axes(d, rank), d.c.chance(1, 3)
    plain = [a % rank for a in axes]
    kind = d.c.pick(
        ("sum", "max", "min", "amax", "mean", "sum", "mean", "prod", "logsumexp", "var", "rounded")
    )
    match kind:
        case "prod":
            factors = unary(y, Function("clamp({}, 0.9, 1.1)", "x.clamp(0.9, 1.1)"))
            return passed(product_over(factors, plain[0]))
        case "logsumexp":
            return passed(log_sum(d, y, sorted(plain)))
        case "var":
            return passed(spread(d, y, sorted(plain), correction=0))
        case "rounded":
            inner = unary(y, Function("round({} * 2 + 0.3)", "torch.round(x * 2 + 0.3)", jumps=True))
            return _reduction(inner, "max", axes, keep)
        case _:
            return _reduction(y, kind, axes, keep)


def _reduction(y: Expr, kind: str, axes: Sequence[int], keep: bool) -> Expr:
    rank = len(y.dims)
    whole = len(axes) == rank and axes == tuple(range(rank))
    text = f"{kind}({y.text}{'' if whole else f', axis={listed(axes)}'}{', keepdims=on' * keep})"

    def compute(env: Env) -> Bounded:
        found = ref.reduce(kind, settled(y, env), [a % rank for a in axes], keep)
        return env.passed(found, "f32")

    return Expr(text, "f32", rest_of(y.dims, axes, keep), compute)


def reduced_integers(d: Draft, y: Expr) -> Expr:
    """Return a sum, a product or an extreme of integers, which wraps around."""
    axes, keep, rank = drawn_axes(d, len(y.dims)), d.c.chance(1, 3), len(y.dims)
    kind = d.c.pick(("sum", "max", "min", "amax", "prod"))

    def compute(env: Env) -> Bounded:
        value = y.value(env).value.to(torch.int64)
        for axis in sorted((a % rank for a in axes), reverse=True):
            match kind:
                case "sum":
                    value = value.sum(axis, keepdim=keep)
                case "prod":
                    parts = value.unbind(axis)
                    found = parts[0]
                    for part in parts[1:]:
                        found = (found * part).to(torch.int32).to(torch.int64)
                    value = found.unsqueeze(axis) if keep else found
                case "min":
                    value = value.amin(axis, keepdim=keep)
                case _:
                    value = (value.abs() if kind == "amax" else value).amax(axis, keepdim=keep)
        return ref.exact(value.to(torch.int32))

    text = f"{kind}({y.text}, axis={listed(axes)}{', keepdims=on' * keep})"
    return Expr(text, "s32", rest_of(y.dims, axes, keep), compute)


def scanned_integers(d: Draft, y: Expr) -> Expr:
    """Return a running sum of integers, which wraps around."""
    axis, reverse, exclusive = d.c.number(len(y.dims)), d.c.chance(1, 3), d.c.chance(1, 3)

    def compute(env: Env) -> Bounded:
        value = y.value(env).value.to(torch.int64)
        value = value.flip(axis) if reverse else value
        found = value.cumsum(axis) - (value if exclusive else 0)
        return ref.exact((found.flip(axis) if reverse else found).to(torch.int32))

    flags = ", reverse=on" * reverse + ", exclusive=on" * exclusive
    return Expr(f"cumsum({y.text}, axis={axis}{flags})", "s32", y.dims, compute)
