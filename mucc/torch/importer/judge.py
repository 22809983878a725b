"""Check by the compiler whether a kernel can be compiled, once for each text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from mucc.diagnostics.core import DiagnosticError, Severity, Source


@cache
def compiles(target: str) -> Callable[[str], str | None]:
    """Make a memoised check of kernels, which returns the reason why a text cannot be compiled, or None."""
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
        first = next(d for d in error.diagnostics if d.severity is Severity.ERROR)
        return f"{first.code}: {first.message}"
    except Exception as error:  # a defect of mucc must not cost the import
        return f"MU9001: {type(error).__name__}: {error}".splitlines()[0]
    return None
