"""Parse values of dims from the command line, and check promises about them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

from mucc.diagnostics.core import Diagnostic, DiagnosticError

DECLARED = "declared in where"
"""The reason given for promises of the source."""

IMPLIED = "follows from the extents of its tensors"
"""The reason given for promises that extents such as `K/128` and `N-2` make."""


def fault(code: str, message: str, *helps: str) -> DiagnosticError:
    """Build an error of one diagnostic without a source location."""
    return DiagnosticError(Diagnostic(code, message, helps=helps))


def parse_dims(words: list[str]) -> dict[str, int]:
    """Parse words such as `["M=4096,N=64", "K=8"]`. Raises MU6050."""
    dims: dict[str, int] = {}
    for word in (w.strip() for text in words for w in text.split(",") if w.strip()):
        name, equals, number = (part.strip() for part in word.partition("="))
        if not equals or not name.isidentifier():
            raise fault("MU6050", f"cannot read '{word}' in --dims", "write --dims M=4096,N=4096,K=4096")
        digits = number.replace("_", "")
        if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) <= 2**31 - 1:
            raise fault("MU6050", f"dim {name} must be a number from 1 to 2147483647, got '{number}'")
        if name in dims:
            raise fault("MU6050", f"dim {name} comes twice in --dims")
        dims[name] = int(digits)
    return dims


def broken_promise(
    kernel: str, promise: str, why: str, dims: Mapping[str, int], *helps: str
) -> DiagnosticError:
    """Build the error MU6052: a promise such as `K % 8 == 0`, its reason, and values that break it."""
    named = re.findall(r"[A-Za-z_]\w*", promise)
    values = ", ".join(f"{name} = {dims[name]}" for name in dict.fromkeys(named) if name in dims)
    note = "the kernel declares it in its `where`" if why == DECLARED else why
    message = f"{kernel} takes no {values}: {promise} must hold"
    return DiagnosticError(
        Diagnostic("MU6052", message, notes=(note,), helps=(f"choose dims for which {promise}", *helps))
    )


USUAL = (4096, 2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1)
"""Extents for examples, the likeliest first."""

MOST_TRIED = 20_000
"""The most combinations of extents tried for an example."""


def example(
    missing: Sequence[str], given: Mapping[str, int], keeps: Callable[[Mapping[str, int]], bool]
) -> str:
    """Suggest `add --dims M=4096,...` with values that, together with those `given`, satisfy `keeps`.

    `keeps` is asked about some of the dims too, and is true of them where it may still hold of all.
    """
    tried = 0

    def extended(values: dict[str, int], rest: Sequence[str]) -> dict[str, int] | None:
        nonlocal tried
        if not rest:
            return values
        numbers = (*USUAL, *dict.fromkeys(n for n in values.values() if n not in USUAL))
        for number in (*numbers, *(n * 3 for n in USUAL), *range(5, 200, 2)):
            tried += 1
            if tried > MOST_TRIED:
                return None
            more = {**values, rest[0]: number}
            if keeps(more) and (found := extended(more, rest[1:])):
                return found
        return None

    found = extended(dict(given), missing)
    if found is None:
        return f"give values for {', '.join(missing)} that keep the kernel's promises"
    return "add --dims " + ",".join(f"{name}={found[name]}" for name in found)


def holds(text: str, dims: Mapping[str, int]) -> bool:
    """Evaluate a promise such as `K % 8 == 0`; promises of other forms count as kept.

    This is for an early and friendly message: the library checks all its promises at every call.
    """
    try:
        tree = ast.parse(text, mode="eval").body
        if not isinstance(tree, ast.Compare) or len(tree.ops) != 1:
            return True
        left, right = _value(tree.left, dims), _value(tree.comparators[0], dims)
        return _RELATIONS[type(tree.ops[0])](left, right)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return True


def _quotient(a: int, b: int) -> int:
    """Compute a / b rounded towards zero, as in C++."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_RELATIONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda a, b: a - b * _quotient(a, b),
}


def _value(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return dims[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, dims), _value(right, dims))
        case _:
            raise KeyError(type(node).__name__)
