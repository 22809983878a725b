"""Other programs that compute the same: where stages begin, how a product is said, in which format it is
computed.

Each rewriting is of the text, by the syntax tree; whether the compiler has kernels for the outcome, and
whether they should be faster, is found out by asking it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mucc.agent.propose.offline.programs import NAME
from mucc.api import language
from mucc.api.diagnostics import DiagnosticError, Source, Span
from mucc.api.language import ast, expr_text

CASTS = ("bf16", "f16")
"""The formats that f32 operands are converted to, where the policy is called so."""

_PRODUCTS = ("matmul", "grouped_matmul", "conv", "conv_transpose")
"""Functions of the language that multiply in a format of their own."""

REDUCTIONS = {"sum", "amax", "mean", "prod", "logsumexp", "max", "min", "softmax", "log_softmax"}


class Rewriting(NamedTuple):
    """A body, what was done, and why it may help; `kind` is that of hypotheses."""

    body: str
    kind: str
    title: str
    why: str


def rewritings(body: str, precision: str) -> list[Rewriting]:
    """Programs without schedules that compute what `body` does, within a policy of precision."""
    source = Source(NAME, body)
    program, sink = language.parse(source)
    if sink.has_errors:
        return []
    found: dict[str, Rewriting] = {}
    for kernel in program.kernels:
        for made in _of_kernel(body, kernel, precision):
            if (text := _formatted(made.body)) and text != body:
                found.setdefault(text, made._replace(body=text))
    return list(found.values())


def _of_kernel(body: str, kernel: ast.Kernel, precision: str) -> Iterator[Rewriting]:
    yield from _precisions(body, kernel, precision)
    yield from _columns_summed(body, kernel)
    yield from _boundaries_opened(body, kernel)
    yield from _boundaries_pinned(body, kernel)


def _formatted(text: str) -> str:
    try:
        return language.format(Source(NAME, text))
    except DiagnosticError:
        return ""


# Walking and editing


def _children(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """Return the parts of an expression."""
    match expr:
        case ast.Unary() | ast.Transpose() | ast.Index():
            return (expr.operand,)
        case ast.Binary():
            return expr.lhs, expr.rhs
        case ast.Call():
            return tuple(a.value for a in expr.args if not isinstance(a.value, ast.List))
        case _:
            return ()


def _parts(expr: ast.Expr) -> Iterator[ast.Expr]:
    """Yield an expression and all within it, outermost first."""
    yield expr
    for child in _children(expr):
        yield from _parts(child)


def _statements(kernel: ast.Kernel) -> Iterator[tuple[Span, ast.Expr]]:
    """Every value of a kernel with the place of its statement."""
    for statement in kernel.body:
        yield statement.span, statement.value
    for value in kernel.returns:
        yield kernel.return_span, value


def _edited(text: str, edits: list[tuple[Span, str]]) -> str:
    for span, new in sorted(edits, key=lambda e: -e[0].start):
        text = text[: span.start] + new + text[span.end :]
    return text


def _is_product(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.Call):
        return expr.function.text in _PRODUCTS
    return isinstance(expr, ast.Binary) and expr.op == "@"


def _operands(expr: ast.Expr) -> tuple[ast.Expr, ast.Expr] | None:
    """Those of a plain product of two values."""
    if isinstance(expr, ast.Binary) and expr.op == "@":
        return expr.lhs, expr.rhs
    if isinstance(expr, ast.Call) and expr.function.text == "matmul" and len(expr.args) >= 2:
        a, b = expr.args[0].value, expr.args[1].value
        extra = {a.name.text for a in expr.args[2:] if a.name}
        if not isinstance(a, ast.List) and not isinstance(b, ast.List) and extra <= {"compute"}:
            return a, b
    return None


def _types(kernel: ast.Kernel) -> Mapping[str, ast.Type]:
    return {p.name.text: p.type for p in kernel.params}


def _extents(type: ast.Type | None) -> tuple[int | None, ...]:
    if type is None or type.shape is None:
        return ()
    return tuple(e.value if isinstance(e, ast.IntLit) else None for e in type.shape)


# A product with one column


def _columns_summed(body: str, kernel: ast.Kernel) -> Iterator[Rewriting]:
    """`h @ w.T` with `w: f32[1, K]` is `sum(h * w, axis=-1, keepdims=on)`: a sum over rows, which the kernel
    that makes h can do on the way, where a product of one column needs a kernel of its own, which reads h.
    """
    types = _types(kernel)
    for _, value in _statements(kernel):
        for part in _parts(value):
            if (operands := _operands(part)) is None:
                continue
            left, right = operands
            weight = right.operand if isinstance(right, ast.Transpose) else right
            if not isinstance(weight, ast.Name):
                continue
            extents = _extents(types.get(weight.text))
            row = isinstance(right, ast.Transpose)
            if len(extents) != 2 or extents[0 if row else 1] != 1:
                continue
            vector = weight.text if row else f"{weight.text}.T"
            new = f"sum(({expr_text(left)}) * {vector}, axis=-1, keepdims=on)"
            yield Rewriting(
                _edited(body, [(part.span, f"({new})")]),
                "algebra",
                f"sum rows instead of multiplying with the one column of {weight.text}",
                "a product of one column is a sum over rows, which the epilogue of the kernel before can do",
            )


# Where stages begin


def _boundaries_pinned(body: str, kernel: ast.Kernel) -> Iterator[Rewriting]:
    """Yield programs with the operand of a reduction, or one of two products of an operand, as a stage of its
    own.

    Any other product is kept where the compiler would keep it anyhow, or would need a kernel more.
    """
    for place, value in _statements(kernel):
        lefts = [expr_text(o[0]) for p in _parts(value) if (o := _operands(p)) is not None]
        for part in _parts(value):
            operands = _operands(part)
            if operands is not None and lefts.count(expr_text(operands[0])) > 1:
                what = f"the product `{_short(part)}`"
            elif (
                isinstance(part, ast.Call)
                and part.function.text in REDUCTIONS
                and part.args
                and not isinstance(part.args[0].value, (ast.List, ast.Name))
                and any(_is_product(p) for p in _parts(part.args[0].value))
            ):
                what = f"what `{part.function.text}` takes"
                part = part.args[0].value
                assert not isinstance(part, ast.List)
            else:
                continue
            if isinstance(part, ast.Name):
                continue
            name = _free_name(body)
            edits = [
                (part.span, name),
                (Span(place.start, place.start), f"stage {name} = {expr_text(part)}\n    "),
            ]
            yield Rewriting(
                _edited(body, edits),
                "fusion",
                f"keep {what} in memory",
                "kernels with less in each may take larger tiles, where what lies between is cheap to keep",
            )


def _boundaries_opened(body: str, kernel: ast.Kernel) -> Iterator[Rewriting]:
    """Yield a stage that the program pins, left to the compiler."""
    for statement in kernel.body:
        if not statement.is_stage:
            continue
        text = body[statement.span.start : statement.span.end]
        yield Rewriting(
            _edited(body, [(statement.span, re.sub(r"^stage\s+", "", text))]),
            "fusion",
            f"leave to the compiler whether {statement.name.text} is kept",
            "a value that the next kernel computes on the way needs no memory",
        )


def _free_name(body: str) -> str:
    number = 0
    while re.search(rf"\bkept{number}\b", body):
        number += 1
    return f"kept{number}"


def _short(expr: ast.Expr, most: int = 40) -> str:
    text = expr_text(expr)
    return text if len(text) <= most else f"{text[: most - 3]}..."


# Number formats


def _precisions(body: str, kernel: ast.Kernel, precision: str) -> Iterator[Rewriting]:
    """Products of f32 in a format that the policy permits, all of them at once."""
    if precision == "tf32":
        yield from _computed_in(body, kernel, ("tf32", "tf32x3"))
    elif precision in CASTS:
        yield from _computed_in(body, kernel, ("tf32",))
        yield from _cast_to(body, kernel, precision)


def _computed_in(body: str, kernel: ast.Kernel, formats: tuple[str, ...]) -> Iterator[Rewriting]:
    """`compute=f32` and formats slower than those permitted, replaced."""
    words = [
        argument
        for _, value in _statements(kernel)
        for part in _parts(value)
        if isinstance(part, ast.Call) and _is_product(part)
        for argument in part.args
        if argument.name is not None and argument.name.text == "compute"
    ]
    for new in formats:
        edits = [
            (a.value.span, new)
            for a in words
            if isinstance(a.value, ast.Name) and a.value.text in SLOWER.get(new, ())
        ]
        if edits:
            yield Rewriting(
                _edited(body, edits),
                "precision",
                f"multiply f32 in {new}",
                f"the policy permits {new}, which tensor cores multiply",
            )


SLOWER = {"tf32": ("f32", "tf32x3"), "tf32x3": ("f32",)}
"""Formats of f32 products that a faster one may replace."""


def _cast_to(body: str, kernel: ast.Kernel, format: str) -> Iterator[Rewriting]:
    """Operands of f32 products rounded to 16 bits. Results stay f32; values between are rounded where they
    are operands next."""
    edits = [
        (product.span, f"({expr_text(_rounded(product, format))})")
        for _, value in _statements(kernel)
        for product in _outermost_products(value)
    ]
    if edits:
        yield Rewriting(
            _edited(body, edits),
            "precision",
            f"multiply f32 in {format}",
            f"the policy permits {format}: twice the rate of tf32, and half the bytes of operands",
        )


def _outermost_products(expr: ast.Expr) -> Iterator[ast.Expr]:
    if _operands(expr) is not None:
        yield expr
        return
    for child in _children(expr):
        yield from _outermost_products(child)


def _rounded(expr: ast.Expr, format: str) -> ast.Expr:
    """Return an expression with the operands of all its products rounded."""
    if (operands := _operands(expr)) is not None:
        a, b = (_rounded_operand(o, format) for o in operands)
        return _cast(ast.Binary(expr.span, "@", a, b, expr.span), "f32")
    match expr:
        case ast.Unary():
            return ast.Unary(expr.span, expr.op, _rounded(expr.operand, format))
        case ast.Binary():
            lhs, rhs = _rounded(expr.lhs, format), _rounded(expr.rhs, format)
            return ast.Binary(expr.span, expr.op, lhs, rhs, expr.op_span)
        case ast.Transpose():
            return ast.Transpose(expr.span, _rounded(expr.operand, format))
        case ast.Index():
            return ast.Index(expr.span, _rounded(expr.operand, format), expr.items)
        case ast.Call():
            return ast.Call(expr.span, expr.function, tuple(_rounded_in(a, format) for a in expr.args))
        case _:
            return expr


def _rounded_in(argument: ast.Argument, format: str) -> ast.Argument:
    if isinstance(argument.value, ast.List):
        return argument
    return ast.Argument(argument.span, argument.name, _rounded(argument.value, format))


def _rounded_operand(expr: ast.Expr, format: str) -> ast.Expr:
    """Return an operand of a product in `format`; one that is turned is turned afterwards."""
    if isinstance(expr, ast.Transpose):
        return ast.Transpose(expr.span, _cast(_rounded(expr.operand, format), format))
    return _cast(_rounded(expr, format), format)


def _cast(expr: ast.Expr, format: str) -> ast.Expr:
    arguments = (ast.Argument(expr.span, None, e) for e in (expr, ast.Name(expr.span, format)))
    return ast.Call(expr.span, ast.Ident(expr.span, "cast"), tuple(arguments))
