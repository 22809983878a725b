"""Promises about run-time dims, as affine sets: printing, and the divisibility that follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm, prod
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

from mucc.library.extents import Monomial, is_derived, polynomial

_SYMBOLS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "%",
    AffineBinaryOpKind.FloorDiv: "/",
}


def expression_text(expr: AffineExpr, dims: Sequence[str]) -> str:
    """Print an affine expression over dims in the notation of C and of the language.

    Division is printed as `/`: for dims, which are positive, floor division equals C's division.
    Raises ValueError for an expression that the notation lacks.
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
    """Print a promise in the language's notation, for example `K % 8 == 0` or `M >= 16`.

    An affine set has all terms on the left; subtracted terms are printed on the right.
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
    """Split a sum into its added and its subtracted terms."""
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
    """The promise `dim % divisor == remainder` about the dim at `position`."""

    position: int
    divisor: int
    remainder: int


@lru_cache(maxsize=256)
def remainders(promises: AffineSet) -> tuple[Remainder, ...]:
    """Collect the promises of the form `dim % divisor == remainder`."""
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
    """Whether the promises `dim % m == r` allow an extent to be a multiple of a number."""
    if is_derived(dim):
        form = polynomial(dim)
        share = gcd(
            multiple * form.divisor, *(_share(promises, dims, term) for term in form.terms if term[0])
        )
        return form.constant_term % share == 0
    return not any(r.remainder % gcd(r.divisor, multiple) for r in _remainders_of(promises, dims, dim))


def _share(promises: AffineSet | None, dims: Sequence[str], term: tuple[Monomial, int]) -> int:
    """Return a number that divides a term of an extent by the promises."""
    names, factor = term
    return abs(factor) * prod(promised_multiple(promises, dims, name) for name in names)


def promised_multiple(promises: AffineSet | None, dims: Sequence[str], dim: str) -> int:
    """Compute the largest number that divides an extent by the promises `dim % m == 0`; 1 without any."""
    if is_derived(dim):
        form = polynomial(dim)
        share = gcd(*(_share(promises, dims, term) for term in form.terms))
        return share // gcd(share, form.divisor)
    return lcm(*(r.divisor for r in _remainders_of(promises, dims, dim) if r.remainder == 0))
