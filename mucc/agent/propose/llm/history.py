"""Describe attempts for a model: their changes, outcomes and reasons."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

from mucc.agent.core.attempts import Attempt, Status
from mucc.agent.core.proposer import View
from mucc.agent.propose.llm.budget import NEEDED, Piece
from mucc.agent.propose.llm.checking import told

LINES = 60
"""Of a diff at the most."""

PRINTED = 400
"""Characters of what a candidate printed last."""

DETAILS = 3
"""Attempts that failed last, of which the reasons are told in full."""


def result(attempt: Attempt) -> str:
    """Return the outcome of an attempt in a few words."""
    outcome = attempt.outcome
    if outcome.status is Status.GOOD and outcome.ms is not None:
        return f"{outcome.ms:.4g} ms{'' if outcome.audited else ' (not audited)'}"
    return outcome.status.value + (f": {outcome.label}" if outcome.label else "")


def pieces(view: View, parent: Attempt, earlier: Sequence[Attempt]) -> Iterator[Piece]:
    """All attempts: the parent's program, a table, then diffs and reasons; the later, the more it is worth.

    Programs of the parent, and of the best, are needed; a diff is of an attempt against its parent.
    """
    numbers = {a.number: a for a in view.attempts}
    best = view.best
    yield Piece(_table(view.attempts, best), 75)
    if parent.number != 0:
        yield Piece(_program(f"Attempt #{parent.number}, to be made faster", parent), NEEDED)
    if best is not None and best.number not in (0, parent.number):
        yield Piece(_program(f"The best so far is #{best.number}", best), 72)
    own = {a.number for a in earlier}
    failed = [a.number for a in view.attempts if a.outcome.status is not Status.GOOD][-DETAILS:]
    latest = max(numbers, default=0) or 1
    for attempt in view.attempts:
        if attempt.number in (0, parent.number):
            continue
        # 20 to 40 by age, above the advice where a question is about them.
        worth = 20 + 20 * attempt.number / latest + (50 if attempt.number in own else 0)
        text = [_diff(attempt, numbers)]
        if attempt.number in own or attempt.number in failed:
            text.append(reasons(attempt))
        yield Piece("\n".join(filter(None, text)), worth)


def reasons(attempt: Attempt) -> str:
    """Return the reason why an attempt did not count; empty where it did."""
    outcome = attempt.outcome
    lines: list[str] = []
    if outcome.reason:
        lines.append(f"reason: {outcome.reason}")
    if outcome.diagnostics:
        lines.append(told(outcome.diagnostics, 3))
    if outcome.status in (Status.RAISED, Status.CRASHED) and outcome.printed:
        lines.append(f"printed: {outcome.printed[-PRINTED:]}")
    return "\n".join(lines)


def _table(attempts: Sequence[Attempt], best: Attempt | None) -> str:
    lines = ["Attempts:"]
    for a in attempts:
        origin = "" if a.candidate.parent is None else f" from #{a.candidate.parent}"
        mark = " (best)" if best is not None and a.number == best.number else ""
        lines.append(f"- #{a.number}{origin}: {a.candidate.change or 'as imported'}: {result(a)}{mark}")
    return "\n".join(lines)


def _program(title: str, attempt: Attempt) -> str:
    return f"{title}:\n```mcu\n{attempt.candidate.program.strip()}\n```"


def _diff(attempt: Attempt, numbers: Mapping[int, Attempt]) -> str:
    """Return the diff of an attempt to its parent."""
    parent = numbers.get(attempt.candidate.parent or 0)
    if parent is None:
        return ""
    before, after = (a.candidate.program.splitlines() for a in (parent, attempt))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    if len(lines) > LINES:
        lines = [*lines[:LINES], f"({len(lines) - LINES} more lines)"]
    body = "\n".join(lines) or "(no difference)"
    title = f"#{attempt.number} against #{parent.number} ({result(attempt)})"
    return f"{title}:\n```diff\n{body}\n```"
