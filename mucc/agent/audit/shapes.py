"""A solution at other sizes than the problem states: smaller ones, from the numbers that its file assigns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from mucc.agent.audit.findings import Finding, Label, note, reject
from mucc.agent.audit.verdict import Verdict
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import LIMITS, scaled

NAME = "shapes"
TRIES = 3
"""Reductions that are tried until the problem itself runs at one."""


def smaller(text: str) -> Iterator[str]:
    """Yield a problem file at smaller sizes, the largest of them first; nothing if it assigns no sizes."""
    tree = ast.parse(text)
    whole = ast.dump(tree)
    for limit, batch in reversed(LIMITS):
        reduced = scaled(tree, limit, batch)
        if (dump := ast.dump(reduced)) != whole:
            whole = dump
            yield ast.unparse(reduced)


def with_other_shapes(verdict: Verdict, text: str, judge: Callable[[str], Verdict]) -> Verdict:
    """Return a verdict with what came of another size, which `judge` audits: to be wrong there is a fault."""
    tried = [t for t, _ in zip(smaller(text), range(TRIES), strict=False)]
    for candidate in tried:
        try:
            other = judge(candidate)
        except DiagnosticError:
            continue
        return replace(verdict, findings=[*verdict.findings, _finding(other)])
    return replace(
        verdict,
        findings=[*verdict.findings, note(NAME, "the problem runs at no other sizes that were tried")],
    )


def _finding(other: Verdict) -> Finding:
    if other.failure is not None:
        return note(NAME, f"serves the stated sizes only: {other.failure.message}")
    if not other.calls:
        return note(NAME, f"not judged at smaller sizes: {'; '.join(f.message for f in other.findings)}")
    if not other.correct:
        wrong = [c.case.name for c in other.calls if c.comparison.judged and not c.comparison.correct]
        return reject(NAME, f"wrong at smaller sizes, in {', '.join(wrong)}", Label.INCORRECT, cases=wrong)
    return note(NAME, "right at smaller sizes as well")
