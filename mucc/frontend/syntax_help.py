"""Advice for errors of the parser: what is written as in Python or C, and how the language writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mucc.diagnostics.core import Applicability, Fix, near_spelling
from mucc.frontend import foreign
from mucc.frontend.lexer import DTYPES, Comment, Token

Advice = tuple[tuple[str, ...], tuple[Fix, ...]]
"""The help texts and the fixes that go into a diagnostic."""

CHOICE = "write `where(condition, a, b)` to choose"
NAMED_RESULTS = foreign.NAMED_RESULTS

KERNEL = "a kernel reads `kernel f[M, N](x: f32[M, N]) -> f32[M, N] { return relu(x) }`"

_QUOTIENT = re.compile(r"//\s*[\w.(]+\s*[]),:]")
_EXTENTS = ("shape", "size", "numel", "ndim", "len")
_NO_LOOPS = (
    "there are no loops: work on whole tensors, with `sum(x, axis=1)`, `cumsum(x, axis=1)` and the like"
)
_DECLARING = ("let", "const", "var", "val", "auto")

_STATEMENTS = {
    "for": _NO_LOOPS,
    "while": _NO_LOOPS,
    "if": CHOICE,
    "def": "functions are beside kernels: `fn name(x, y) { return x + y }`",
    "print": "a kernel prints nothing: return the value as a further result",
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

_DOUBLED = {
    "*": "write pow(x, y) for a power",
    "/": "division is `/`",
    "<": "write left_shift(a, b) for a shift of bits",
    ">": "write right_shift(a, b) for a shift of bits",
    "+": "values do not change: name a new one, `y = x + 1`",
    "-": "values do not change: name a new one, `y = x - 1`",
}
"""Advice by the second token of an operator of another language."""

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
    if name.startswith("__"):
        return "threads and shared memory are the compiler's: write what is computed of whole tensors"
    if after == "name" and (foreign.type_help(name) or foreign.is_dtype(name)):
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
    return () if word in ("}", ")", "]") else (KERNEL,)


def type_help(name: str, after: str, *, is_result: bool) -> tuple[str, ...]:
    """Advise on a parameter or a result whose name is followed by the token `after` in place of `:`."""
    if is_result and foreign.is_dtype(name):
        return (NAMED_RESULTS,)
    if foreign.is_dtype(name):
        return ("the name comes before the type: `x: f32[M, N]`",)
    if after == "=":
        return (f"a parameter has a type, and no default: `{name}: f32`",)
    return ("for example `x: bf16[M, K]`",)


def dtype_help(token: Token) -> Advice:
    """Advise on a dtype of another framework, a misspelt one, and a type that is no dtype."""
    name = token.text
    if (advice := foreign.type_help(name)) is not None:
        return (advice,), ()
    if (same := foreign.DTYPES.get(name)) is not None:
        fix = Fix(token.span, same, f"write '{same}'", Applicability.MACHINE_APPLICABLE)
        return (f"did you mean '{same}'?",), (fix,)
    if (near := foreign.NEAREST_DTYPES.get(name)) is not None:
        return (f"the nearest is {near}",), (Fix(token.span, near, f"write '{near}'"),)
    if (guess := near_spelling(name, DTYPES)) is not None:
        return (f"did you mean '{guess}'?",), (Fix(token.span, guess, f"write '{guess}'"),)
    return (), ()


def item_end_help(token: Token, before: Token, opener: Token) -> tuple[str, ...]:
    """Return help for a token that stands where a list should go on or end."""
    if opener.kind == "(" and (before.kind == "]" or foreign.is_dtype(before.text)):
        if token.kind == "[":
            return ("extents are one list: `f32[M, N]`",)
        if token.kind == "(":
            return ("extents are in square brackets: `f32[M, N]`",)
        if token.kind == "=":
            return ("parameters have no defaults",)
        if token.kind == "name":
            return ("the name comes before the type: `x: f32[M, N]`",)
    return ()


def operator_help(token: Token, after: str, last: Sequence[Token]) -> tuple[str, ...]:
    """Advise on a token behind an expression, where an operator or the end of a line was expected.

    `after` is the token behind it, `last` are those before it.
    """
    if token.text == "if":
        return (CHOICE,)
    if token.text == "is":
        return ("equality is `==`",)
    if token.kind == after == ":":
        return ("functions are called by their names alone: `max(x, y)`",)
    if last[-1].text == "lambda":
        return (_STATEMENTS["def"],)
    if [t.kind for t in last] == ["(", "name", ")"] and foreign.is_dtype(last[1].text):
        dtype = foreign.DTYPES.get(last[1].text, last[1].text)
        return (f"convert with `cast(x, {dtype})`",)
    if token.kind == last[-1].kind == "name" and token.text not in ("in", "else"):
        return (f"an operator is missing; a call has brackets: `{last[-1].text}({token.text})`",)
    return ()


def expression_help(token: Token, before: Token) -> tuple[str, ...]:
    """Return help for a token that stands where an expression was expected."""
    if token.kind in _DOUBLED and before.kind == token.kind and before.end == token.start:
        return (_DOUBLED[token.kind],)
    if before.kind == "return" and token.kind in ("}", "None"):
        return ("`return` is followed by the result of the kernel: `return relu(x)`",)
    if token.kind == "shape" and token.text.startswith("0x"):
        return (f"numbers are decimal: {int(token.text.split('x')[1], 16)}",)
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
