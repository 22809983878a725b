"""Print AST nodes as source text, expressions with the fewest brackets."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.frontend import ast
from mucc.frontend.expressions import COMPARISON, DIM_PRECEDENCE, NOT, POSTFIX, PRECEDENCE, UNARY

WIDTH = 100
STEP = 4


def expr_text(expr: ast.Expr) -> str:
    """Print an expression on one line."""
    match expr:
        case ast.Number() | ast.Name():
            return expr.text
        case ast.Unary():
            space = " " if expr.op == "not" else ""
            return f"{expr.op}{space}{_bracketed(expr.operand, _binding(expr))}"
        case ast.Binary():
            return _chain_text(expr)
        case ast.Transpose() | ast.Index():
            return _bracketed(expr.operand, POSTFIX) + _suffix(expr)
        case ast.Call():
            return f"{expr.function.text}({', '.join(map(argument_text, expr.args))})"


def _chain_text(expr: ast.Binary) -> str:
    """Print a chain of binary operators such as `a + b - c`, with brackets around operands that need them."""
    first, chain = expr.spine
    binding = _side_bindings(chain[0])[0]
    words = [_bracketed(first, binding)]
    opened = 0
    for inner, outer in zip(chain, [*chain[1:], None], strict=True):
        words.append(f"{inner.op} {_bracketed(inner.rhs, _side_bindings(inner)[1])}")
        if outer is not None and PRECEDENCE[inner.op] < _side_bindings(outer)[0]:
            words[-1] += ")"
            opened += 1
    return "(" * opened + " ".join(words)


def argument_text(argument: ast.Argument) -> str:
    """Print an argument of a call on one line."""
    value = argument.value
    text = _list_text(value) if isinstance(value, ast.List) else expr_text(value)
    return f"{argument.name.text}={text}" if argument.name else text


def _list_text(items: ast.List) -> str:
    return f"({', '.join(map(item_text, items.values))}{',' if len(items.values) == 1 else ''})"


def item_text(item: int | ast.Ident | ast.DimBinary | ast.DimNegation) -> str:
    """Print an item of a list argument: `-1`, `M` or `2*K`."""
    return str(item) if isinstance(item, int) else extent_text(item)


def _binding(expr: ast.Expr) -> int:
    """Return the precedence of an expression's outermost operator."""
    match expr:
        case ast.Binary():
            return PRECEDENCE[expr.op]
        case ast.Unary():
            return NOT if expr.op == "not" else UNARY
        case _:
            return POSTFIX


def _side_bindings(expr: ast.Binary) -> tuple[int, int]:
    """Return the lowest precedence at which each side needs no brackets; operators associate to the left."""
    binds = PRECEDENCE[expr.op]
    return (binds + 1 if binds == COMPARISON else binds), binds + 1


def _bracketed(expr: ast.Expr, binding: int) -> str:
    text = expr_text(expr)
    return f"({text})" if _binding(expr) < binding else text


def _suffix(expr: ast.Transpose | ast.Index) -> str:
    return ".T" if isinstance(expr, ast.Transpose) else index_text(expr.items)


def index_text(items: Sequence[ast.IndexItem]) -> str:
    """Print the brackets of an index expression, such as `[:, 2:8, None]`."""
    return f"[{', '.join(map(_index_item_text, items))}]"


def _index_item_text(item: ast.IndexItem) -> str:
    match item:
        case ast.NewAxis():
            return "None"
        case ast.Ellipsis():
            return "..."
        case ast.Slice():
            return _slice_text(item)
        case _:
            return dimexpr_text(item)


def _slice_text(item: ast.Slice) -> str:
    """Print a slice, with spaces around the colons where a bound is arithmetic: `2:8`, `: K / 2`."""
    bounds = (item.start, item.stop, *((item.step,) if item.step is not None else ()))
    first, *others = ("" if b is None else dimexpr_text(b) for b in bounds)
    if not any(isinstance(b, ast.DimBinary) for b in bounds):
        return ":".join((first, *others))
    text = first
    for bound in others:
        text += (" " if text and text[-1] != ":" else "") + ":" + (f" {bound}" if bound else "")
    return text


def expr_lines(expr: ast.Expr, used: int, indent: int, after: int = 0, binding: int = 0) -> list[str]:
    """Print an expression, broken into lines where it does not fit on one.

    The first line begins at column `used` and is returned without indentation; the others are indented by at
    least `indent` columns. `after` columns stay free at the end. An expression of lower precedence than
    `binding` gets brackets.
    """
    flat = _bracketed(expr, binding)
    if used + len(flat) + after <= WIDTH:
        return [flat]
    if _binding(expr) < binding:
        return _enclosed("(", [expr_lines(expr, indent + STEP, indent + STEP)], ")", indent)
    match expr:
        case ast.Call() if expr.args:
            items = [_argument_lines(a, indent + STEP) for a in expr.args]
            for item in items:
                item[-1] += ","
            return _enclosed(f"{expr.function.text}(", items, ")", indent)
        case ast.Binary():
            return _chain_lines(expr, used, indent)
        case ast.Unary():
            sign = "not " if expr.op == "not" else "-"
            lines = expr_lines(expr.operand, used + len(sign), indent, after, _binding(expr))
            return [sign + lines[0], *lines[1:]]
        case ast.Transpose() | ast.Index():
            suffix = _suffix(expr)
            lines = expr_lines(expr.operand, used, indent, after + len(suffix), POSTFIX)
            return [*lines[:-1], lines[-1] + suffix]
        case _:
            return [flat]


def _enclosed(opener: str, items: list[list[str]], closer: str, indent: int) -> list[str]:
    inner = " " * (indent + STEP)
    return [opener, *(line for item in items for line in (inner + item[0], *item[1:])), " " * indent + closer]


def _argument_lines(argument: ast.Argument, indent: int) -> list[str]:
    if isinstance(argument.value, ast.List):
        return [argument_text(argument)]
    keyword = f"{argument.name.text}=" if argument.name else ""
    lines = expr_lines(argument.value, indent + len(keyword), indent, 1)
    return [keyword + lines[0], *lines[1:]]


def _chain_lines(expr: ast.Binary, used: int, indent: int) -> list[str]:
    """Print a chain of binary operators, each operator at the beginning of a line."""
    binds = PRECEDENCE[expr.op]
    left_binding, right_binding = _side_bindings(expr)
    terms: list[tuple[str, ast.Expr]] = []
    first: ast.Expr = expr
    while isinstance(first, ast.Binary) and PRECEDENCE[first.op] == binds:
        terms.append((first.op, first.rhs))
        first = first.lhs
        if binds == COMPARISON:
            break
    lines = expr_lines(first, used, indent, 0, left_binding)
    inner = indent + STEP
    for op, term in reversed(terms):
        term_lines = expr_lines(term, inner + len(op) + 1, inner, 1, right_binding)
        lines += [f"{' ' * inner}{op} {term_lines[0]}", *term_lines[1:]]
    return lines


def type_text(type_: ast.Type) -> str:
    """Print a type, such as `bf16[M, K] col_major`."""
    shape = ""
    if type_.shape is not None:
        shape = f"[{', '.join(map(extent_text, type_.shape))}]"
    layout = ""
    if type_.layout is not None:
        layout = f" {type_.layout.kind}"
        if type_.layout.kind == "strides":
            layout += f"({', '.join('_' if s is None else str(s) for s in type_.layout.strides)})"
    return type_.dtype.text + shape + layout


def extent_text(extent: ast.DimExpr) -> str:
    """Print an extent: `M`, `64`, `K/128` or `(M+N)/2`."""
    return dimexpr_text(extent, space="")


def dim_text(dim: ast.Dim) -> str:
    """Print a dim: `M` or `K=4096`."""
    return f"{dim.name.text}={dim.value.value}" if dim.value else dim.name.text


def promise_text(promise: ast.Promise) -> str:
    """Print a promise, such as `K % 8 == 0`."""
    return f"{dimexpr_text(promise.lhs)} {promise.op} {dimexpr_text(promise.rhs)}"


def dimexpr_text(expr: ast.DimExpr, binding: int = 0, space: str = " ") -> str:
    """Print arithmetic on dims, in brackets if its precedence is lower than `binding`.

    `space` goes around operators.
    """
    match expr:
        case ast.Ident():
            return expr.text
        case ast.IntLit():
            return str(expr.value)
        case ast.DimBinary():
            binds = DIM_PRECEDENCE[expr.op]
            lhs, rhs = dimexpr_text(expr.lhs, binds, space), dimexpr_text(expr.rhs, binds + 1, space)
            text = f"{lhs}{space}{expr.op}{space}{rhs}"
            return f"({text})" if binds < binding else text
        case ast.DimNegation():
            return f"-{dimexpr_text(expr.operand, UNARY)}"


def value_text(value: ast.Value) -> str:
    """Print the value of a setting."""
    match value:
        case ast.Shape():
            return "x".join(map(str, value.values))
        case ast.IntLit():
            return str(value.value)
        case ast.Word(args=None):
            return value.text
        case ast.Word():
            return f"{value.text}({', '.join(map(value_arg_text, value.args or ()))})"


def value_arg_text(argument: ast.ValueArg) -> str:
    """Print an argument of a setting's value."""
    text = value_text(argument.value)
    return f"{argument.name.text}={text}" if argument.name else text
