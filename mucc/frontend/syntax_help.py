"""Advice for errors of the parser: what is written as in Python or C, and how the language writes it."""

from __future__ import annotations

import re

from mucc.diagnostics.core import Applicability, Fix
from mucc.frontend import foreign
from mucc.frontend.lexer import Comment, Token

Advice = tuple[tuple[str, ...], tuple[Fix, ...]]
"""The help texts and the fixes that go into a diagnostic."""

CHOICE = "write `where(condition, a, b)` to choose"
NAMED_RESULTS = "several results have names: `-> (y: bf16[M, N], s: f32[M])`"

_QUOTIENT = re.compile(r"//\s*[\w.(]+\s*[]),:]")
_EXTENTS = ("shape", "size", "numel", "ndim", "len")
_NO_LOOPS = (
    "there are no loops: work on whole tensors, with `sum(x, axis=1)`, `cumsum(x, axis=1)` and the like"
)
_TYPES = ("Tensor", "tensor", "bool")
_DECLARING = ("let", "const", "var", "val", "auto")

_STATEMENTS = {
    "for": _NO_LOOPS,
    "while": _NO_LOOPS,
    "if": CHOICE,
    "def": "functions are beside kernels: `fn name(x, y) { return x + y }`",
    "fn": "functions are beside kernels: `fn name(x, y) { return x + y }`",
}
"""Advice by the word that a statement of another language begins with."""

_AFTER_NAME = {
    ":": "a value is named with `=` alone: `y = relu(x)`",
    ",": "an expression has one value: name parts one by one, `a = x[:, :N]`, or `v = topk(x, 4)` and "
    "`i = argtopk(x, 4)`",
    "[": "values do not change: choose elements, `y = where(iota((M, N), axis=1) == 0, 0, x)`",
}
"""Advice by the token after the name that a statement begins with."""

_NO_EXPRESSIONS = {
    "[": "lists have round brackets, `axis=(0, 1)`; operands of `concat` have none: `concat(x, y, axis=1)`",
    "None": "leave the argument out for its default",
    ".": "write a digit before the point: `0.5`",
    "=": "equality is `==`",
    "not": "put brackets around it: `(not x)`",
    "shape": "a shape such as 128x256x64 belongs in a schedule",
}
"""Advice by the token that stands where an expression was expected."""


def statement_help(word: str) -> tuple[str, ...]:
    """Advise on a word that begins a statement of another language."""
    return (_STATEMENTS[word],) if word in _STATEMENTS else ()


def name_help(name: str, after: str) -> str | None:
    """Advise on a statement that begins with a name and the token `after`, where `=` was expected."""
    if name in _DECLARING:
        return "a value needs no word before its name: `y = relu(x)`"
    if name in _STATEMENTS:
        return _STATEMENTS[name]
    if after == "name" and (name in _TYPES or foreign.is_dtype(name)):
        return "the type follows the name, or is left out: `y: bf16[M, K] = relu(x)`, `y = relu(x)`"
    return _AFTER_NAME.get(after)


def item_help(word: str, after: str) -> tuple[str, ...]:
    """Advise on a word at the top of a file that begins no kernel, function or schedule."""
    if word in ("import", "from"):
        return ("there is nothing to import: all functions are known",)
    if word in _DECLARING or after == "=":
        return (
            "a number is named within a kernel, `eps = 1e-5`, or is a bound dim: `kernel f[K=4096](...)`",
        )
    return ()


def expression_help(token: Token, before: Token) -> tuple[str, ...]:
    """Advise on a token that stands where an expression was expected."""
    if token.kind in ("*", "/") and before.kind == token.kind:
        return ("write pow(x, y) for a power",) if token.kind == "*" else ("division is `/`",)
    return (_NO_EXPRESSIONS[token.kind],) if token.kind in _NO_EXPRESSIONS else ()


def attribute_help(name: Token, owner: Token, *, is_call: bool) -> Advice:
    """Advise on an attribute other than `T`: a method, a function or a number of a library, a shape."""
    of_library = owner.text in foreign.LIBRARIES
    if name.text in _EXTENTS:
        return ("extents are dims, which are numbers in expressions: `sum(x, axis=1) / N`",), ()
    if of_library and (help_ := foreign.value_help(name.text)):
        return (help_,), ()
    if is_call:
        operand = "x" if of_library else f"{owner.text}, ..." if owner.kind == "name" else "..."
        call = f"`{name.text}({operand})`"
        help_ = foreign.function_help(name.text) or f"functions are called by their names alone: {call}"
        return (help_,), ()
    if owner.kind == "int":
        return (f"write `{owner.text}` or `{owner.text}.0`",), ()
    fix = Fix(name.span, "T", "write 'T'", Applicability.MACHINE_APPLICABLE)
    return ("the only attribute is `.T`, the transpose",), (fix,) if name.text in ("t", "mT") else ()


def quotient_help(comments: list[Comment], start: int, end: int) -> tuple[str, ...]:
    """Advise on a bracket that is never closed because `//` was written for a quotient."""
    inner = (c for c in comments if start <= c.start < end)
    if any(_QUOTIENT.match(c.text) for c in inner):
        return ("`//` begins a comment: extents are divided by `/`, values by `floor_divide(a, b)`",)
    return ()
