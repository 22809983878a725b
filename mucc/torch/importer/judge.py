"""Whether mucc can make a kernel of a text: asks the compiler, once for each text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from mucc.diagnostics.core import DiagnosticError, Source


@cache
def compiles(target: str) -> Callable[[str], str | None]:
    """Says why a kernel cannot be compiled for a target, or None; remembers what it was asked."""
    known: dict[str, str | None] = {}

    def judge(text: str) -> str | None:
        if text not in known:
            known[text] = _problem(text, target)
        return known[text]

    return judge


def _problem(text: str, target: str) -> str | None:
    from mucc.compiler.program import compile_source

    try:
        compile_source(Source("<import>", text), target, only_check=True)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        return f"{first.code}: {first.message}"
    except Exception as error:  # a defect of mucc must not cost the import
        return f"MU9001: {type(error).__name__}: {error}".splitlines()[0]
    return None
