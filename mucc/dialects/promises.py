"""What is known about run-time dims: promises as affine sets, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm
from typing import NamedTuple

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)

_SYMBOLS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "%",
    AffineBinaryOpKind.FloorDiv: "/",
}


def expression_text(expr: AffineExpr, dims: Sequence[str]) -> str:
    """An affine expression over dims in C's (and the language's) notation.

    Division is C's, which agrees with floor division because dims are positive.
    """
    match expr:
        case AffineDimExpr():
            return dims[expr.position]
        case AffineConstantExpr():
            return str(expr.value)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.CeilDiv):
            lhs, rhs = expression_text(expr.lhs, dims), expression_text(expr.rhs, dims)
            return f"(({lhs} + {rhs} - 1) / {rhs})"
        case AffineBinaryOpExpr():
            lhs, rhs = (_operand(e, expr.kind, dims) for e in (expr.lhs, expr.rhs))
            if expr.kind is AffineBinaryOpKind.Add and rhs.startswith("-"):
                return f"{lhs} - {rhs[1:]}"
            return f"{lhs} {_SYMBOLS[expr.kind]} {rhs}"
        case _:
            raise ValueError(f"no notation for {expr}")


def _operand(expr: AffineExpr, outer: AffineBinaryOpKind, dims: Sequence[str]) -> str:
    text = expression_text(expr, dims)
    inner_binds_less = isinstance(expr, AffineBinaryOpExpr) and (
        outer is not AffineBinaryOpKind.Add or expr.kind is not AffineBinaryOpKind.Mul
    )
    return f"({text})" if inner_binds_less and not _is_sum_in_sum(expr, outer) else text


def _is_sum_in_sum(expr: AffineExpr, outer: AffineBinaryOpKind) -> bool:
    return (
        isinstance(expr, AffineBinaryOpExpr)
        and expr.kind is AffineBinaryOpKind.Add
        and outer is AffineBinaryOpKind.Add
    )


def constraint_text(constraint: AffineConstraintExpr, dims: Sequence[str]) -> str:
    """A promise as the language writes it, for example `K % 8 == 0` or `M >= 16`.

    In an affine set everything stands on the left; here what is subtracted is back on the right.
    """
    symbol = {
        AffineConstraintKind.ge: ">=",
        AffineConstraintKind.le: "<=",
        AffineConstraintKind.eq: "==",
    }[constraint.kind]
    added, subtracted = _sides(constraint.lhs)
    lhs, rhs = expression_text(added, dims), expression_text(subtracted + constraint.rhs, dims)
    return f"{lhs} {symbol} {rhs}"


def _sides(expr: AffineExpr) -> tuple[AffineExpr, AffineExpr]:
    """The terms of a sum that are added, and those that are subtracted."""
    zero = AffineConstantExpr(0)
    match expr:
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            (a, b), (c, d) = _sides(expr.lhs), _sides(expr.rhs)
            return a + c, b + d
        case AffineConstantExpr(value=n) if n < 0:
            return zero, AffineConstantExpr(-n)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, rhs=AffineConstantExpr(value=n)) if n < 0:
            return zero, expr.lhs * -n
        case _:
            return expr, zero


class Remainder(NamedTuple):
    """The promise that the dim at a position leaves a remainder when it is divided."""

    position: int
    divisor: int
    remainder: int


@lru_cache(maxsize=256)
def remainders(promises: AffineSet) -> tuple[Remainder, ...]:
    """The promises of the form `dim % divisor == remainder`."""
    found: list[Remainder] = []
    for constraint in promises.constraints:
        if constraint.kind is not AffineConstraintKind.eq:
            continue
        value, rest = _sides(constraint.lhs)
        match value, rest + constraint.rhs:
            case (
                AffineBinaryOpExpr(AffineBinaryOpKind.Mod, AffineDimExpr(p), AffineConstantExpr(m)),
                AffineConstantExpr(remainder),
            ):
                found.append(Remainder(p, m, remainder))
            case _:
                continue
    return tuple(found)


def _remainders_of(promises: AffineSet | None, dims: Sequence[str], dim: str) -> Iterator[Remainder]:
    return (r for r in (remainders(promises) if promises else ()) if dims[r.position] == dim)


def may_be_multiple(promises: AffineSet | None, dims: Sequence[str], dim: str, multiple: int) -> bool:
    """Whether no promise `dim % m == r` keeps `dim` from being a multiple of a number."""
    return not any(r.remainder % gcd(r.divisor, multiple) for r in _remainders_of(promises, dims, dim))


def promised_multiple(promises: AffineSet | None, dims: Sequence[str], dim: str) -> int:
    """The largest m that the promises `dim % m == 0` make a divisor of `dim`; 1 where there is none."""
    return lcm(*(r.divisor for r in _remainders_of(promises, dims, dim) if r.remainder == 0))
