"""Lower `where` clauses to affine constraints over a kernel's dims."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineExpr, AffineSet
from xdsl.ir.affine.affine_expr import AffineConstantExpr

from mucc.frontend import ast
from mucc.frontend.context import Context
from mucc.frontend.exprtext import promise_text

_KINDS = {
    "==": AffineConstraintKind.eq,
    "<=": AffineConstraintKind.le,
    "<": AffineConstraintKind.le,
    ">=": AffineConstraintKind.ge,
    ">": AffineConstraintKind.ge,
}


def lower_promises(
    context: Context,
    kernel: ast.Kernel,
    dims: dict[str, int | None],
) -> AffineSet | None:
    """Lower the promises of a kernel to an affine set over its dims in order; bound dims become constants.

    Promises that always hold are dropped, promises that never hold are reported. Returns None without
    promises.
    """
    constraints: list[AffineConstraintExpr] = []
    for promise in kernel.promises:
        lhs, rhs = (affine(context, side, dims, "a promise") for side in (promise.lhs, promise.rhs))
        if lhs is None or rhs is None:
            continue
        if promise.op == "<":
            lhs = lhs + 1
        elif promise.op == ">":
            rhs = rhs + 1
        kind = _KINDS[promise.op]
        if isinstance(lhs, AffineConstantExpr) and isinstance(rhs, AffineConstantExpr):
            _check_constant(context, promise, kind, lhs.value - rhs.value)
        else:
            constraints.append(AffineConstraintExpr(kind, lhs, rhs, canonicalize=False))
    return AffineSet(len(dims), 0, tuple(constraints)) if constraints else None


def _check_constant(
    context: Context, promise: ast.Promise, kind: AffineConstraintKind, difference: int
) -> None:
    holds = {
        AffineConstraintKind.eq: difference == 0,
        AffineConstraintKind.le: difference <= 0,
        AffineConstraintKind.ge: difference >= 0,
    }
    if not holds[kind]:
        context.error(
            "MU1047",
            f"`{promise_text(promise)}` never holds",
            promise.span,
            helps=("no caller could keep this promise: change it, or the value of the bound dim",),
        )


def affine(
    context: Context, expr: ast.DimExpr, dims: Mapping[str, int | None], where: str
) -> AffineExpr | None:
    """Lower arithmetic on dims to an affine expression over `dims` in order; None after an error.

    Bound dims are constants. `where` says in messages what the arithmetic is part of.
    """
    match expr:
        case ast.IntLit():
            return AffineExpr.constant(expr.value)
        case ast.Ident():
            if expr.text not in dims:
                message = f"undeclared dim '{expr.text}'"
                helps = (f"{where} is made of dims and numbers",)
                context.unknown("MU1005", message, expr.span, expr.text, dims, helps=helps)
                return None
            value = dims[expr.text]
            if value is not None:
                return AffineExpr.constant(value)
            return AffineExpr.dimension(list(dims).index(expr.text))
        case ast.DimNegation():
            operand = affine(context, expr.operand, dims, where)
            return None if operand is None else operand * -1
        case ast.DimBinary():
            lhs = affine(context, expr.lhs, dims, where)
            rhs = affine(context, expr.rhs, dims, where)
            return None if lhs is None or rhs is None else _combined(context, expr, lhs, rhs, where)


def _combined(
    context: Context, expr: ast.DimBinary, lhs: AffineExpr, rhs: AffineExpr, where: str
) -> AffineExpr | None:
    constant = rhs.value if isinstance(rhs, AffineConstantExpr) else None
    match expr.op:
        case "+":
            return lhs + rhs
        case "-":
            return lhs - rhs
        case "*" if constant is not None or isinstance(lhs, AffineConstantExpr):
            return lhs * rhs
        case "%" if constant is not None and constant > 0:
            return (
                AffineExpr.constant(lhs.value % constant)
                if isinstance(lhs, AffineConstantExpr)
                else lhs % constant
            )
        case "/" if constant is not None and constant > 0:
            return (
                AffineExpr.constant(lhs.value // constant)
                if isinstance(lhs, AffineConstantExpr)
                else lhs // constant
            )
        case _:
            needs = (
                "one side of '*' must be a number"
                if expr.op == "*"
                else f"the right side of '{expr.op}' must be a positive number"
            )
            context.error(
                "MU1046",
                f"{needs} in {where}",
                expr.span,
                helps=("arithmetic on dims is affine: `K % 8`, `M + 2 * N`",),
            )
            return None
