"""Edits that make the operands of an operator fit each other, for diagnostics."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from mucc.diagnostics.core import Fix, Span
from mucc.dialects.mu import rules
from mucc.dialects.mu.types import Shaped
from mucc.frontend import ast


def operand_fixes(expr: ast.Binary, lhs: SSAValue, rhs: SSAValue) -> tuple[Fix, ...]:
    """Suggest an edit of one operand that makes the shapes of an operator fit."""
    if expr.op == "@":
        if isinstance(expr.rhs, ast.Name) and _fits(
            lambda: rules.matmul(lhs.type, rules.transpose(rhs.type))
        ):
            return (_insertion(expr.rhs, ".T"),)
        if isinstance(expr.lhs, ast.Name) and _fits(
            lambda: rules.matmul(rules.transpose(lhs.type), rhs.type)
        ):
            return (_insertion(expr.lhs, ".T"),)
        return ()
    if _fits(lambda: rules.elementwise([lhs.type, rhs.type])):
        return ()
    for operand, value, other in ((expr.rhs, rhs, lhs), (expr.lhs, lhs, rhs)):
        if isinstance(operand, ast.Name) and len(Shaped.of(value.type).dims) == 1:
            column = rules.expand(value.type, [1])
            if _fits(lambda: rules.elementwise([other.type, column])):  # noqa: B023
                return (_insertion(operand, "[:, None]"),)
    return ()


def _fits(rule: Callable[[], object]) -> bool:
    try:
        rule()
    except rules.TypeRuleError:
        return False
    return True


def _insertion(expr: ast.Expr, text: str) -> Fix:
    return Fix(Span(expr.span.end, expr.span.end), text, f"write `{text}`")
