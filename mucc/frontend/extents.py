"""Lower arithmetic on dims in types and arguments to extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mucc.dialects.mu.types import Dim
from mucc.frontend import ast
from mucc.frontend.context import Context
from mucc.frontend.exprtext import extent_text
from mucc.library.extents import ExtentError, Polynomial, at_least


def lower_extent(
    context: Context, expr: ast.DimExpr, dims: Mapping[str, int | None], least: int | None = 1
) -> Dim | None:
    """Return the canonical form of an extent, in which bound dims are numbers; None after an error.

    `dims` has all names of the extent.

    An extent that is always less than `least` is an error, as is one that is no whole number.
    """
    if (form := _lowered(context, expr, dims)) is None:
        return None
    if not form.names and form.divisor > 1:
        bound = [f"{name} = {dims[name]}" for name in sorted(names_in(expr))]
        given = f" for {', '.join(bound)}" if bound else ""
        context.error("MU1063", f"{extent_text(expr)} is no whole number{given}", expr.span)
        return None
    if least is None:
        return form.dim
    try:
        at_least(form.dim, least)
        is_small = False
    except ExtentError:
        is_small = True
    if is_small:
        context.error("MU1049", f"an extent must be at least {least}", expr.span)
        return None
    return form.dim


def idents(expr: ast.DimExpr) -> Iterator[ast.Ident]:
    """Yield the names in arithmetic on dims, in order."""
    match expr:
        case ast.Ident():
            yield expr
        case ast.IntLit():
            return
        case ast.DimNegation():
            yield from idents(expr.operand)
        case ast.DimBinary():
            yield from idents(expr.lhs)
            yield from idents(expr.rhs)


def names_in(expr: ast.DimExpr) -> set[str]:
    """Return the names in arithmetic on dims, each once."""
    return {ident.text for ident in idents(expr)}


def _lowered(context: Context, expr: ast.DimExpr, dims: Mapping[str, int | None]) -> Polynomial | None:
    match expr:
        case ast.IntLit():
            return Polynomial.number(expr.value)
        case ast.Ident():
            value = dims[expr.text]
            return Polynomial.of({(expr.text,): 1}) if value is None else Polynomial.number(value)
        case ast.DimNegation():
            operand = _lowered(context, expr.operand, dims)
            return None if operand is None else -operand
        case ast.DimBinary():
            lhs, rhs = _lowered(context, expr.lhs, dims), _lowered(context, expr.rhs, dims)
            return None if lhs is None or rhs is None else _combined(context, expr, lhs, rhs)


def _combined(context: Context, expr: ast.DimBinary, lhs: Polynomial, rhs: Polynomial) -> Polynomial | None:
    match expr.op:
        case "+":
            return lhs + rhs
        case "-":
            return lhs - rhs
        case "*":
            return lhs * rhs
        case "/" if (divisor := rhs.constant) is not None and divisor > 0:
            return lhs.over(divisor)
        case _:
            context.error(
                "MU1054",
                f"an extent is no {'remainder' if expr.op == '%' else 'quotient of dims'}",
                expr.span,
                notes=("extents are sums, products, and exact quotients by a number: `2*N`, `(M+N)/2`",),
                helps=("state a remainder in `where`: `K % 8 == 0`",) if expr.op == "%" else (),
            )
            return None


def as_extent(expr: ast.Expr) -> ast.DimExpr | None:
    """Read an expression as arithmetic on dims; None for other expressions."""
    match expr:
        case ast.Number() if expr.is_int:
            return ast.IntLit(expr.span, int(expr.text))
        case ast.Name():
            return ast.Ident(expr.span, expr.text)
        case ast.Unary(op="-") if (operand := as_extent(expr.operand)) is not None:
            return ast.DimBinary(expr.span, "-", ast.IntLit(expr.span, 0), operand)
        case ast.Binary() if expr.op in tuple("+-*/"):
            lhs, rhs = as_extent(expr.lhs), as_extent(expr.rhs)
            return None if lhs is None or rhs is None else ast.DimBinary(expr.span, expr.op, lhs, rhs)
        case _:
            return None
