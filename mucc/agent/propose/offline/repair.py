"""Repair rejected programs by the fixes of their diagnostics."""

from __future__ import annotations

from mucc.agent.core.attempts import Attempt, Status
from mucc.api.diagnostics import Fix, from_json


def repaired(attempt: Attempt) -> tuple[str, str] | None:
    """Return the program of an attempt that mucc rejected with its diagnostics' fixes applied, and what they
    say.

    Fixes that may be incorrect are taken too: the result is judged like every other candidate.
    None where there are none, or where they are not of this text.
    """
    if attempt.outcome.status is not Status.INVALID:
        return None
    fixes: list[Fix] = []
    for said in attempt.outcome.diagnostics:
        try:
            diagnostic = from_json(said)
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        # Of several ways to mend one fault the first; two that meet would not leave what either means.
        if (fix := next(iter(diagnostic.fixes), None)) and not any(_meet(fix, f) for f in fixes):
            fixes.append(fix)
    program = attempt.candidate.program
    if not fixes or any(not 0 <= f.span.start <= f.span.end <= len(program) for f in fixes):
        return None
    for fix in sorted(fixes, key=lambda f: -f.span.start):
        program = program[: fix.span.start] + fix.replacement + program[fix.span.end :]
    return program, "; ".join(dict.fromkeys(f.message for f in fixes))


def _meet(a: Fix, b: Fix) -> bool:
    return a.span.start < b.span.end and b.span.start < a.span.end
