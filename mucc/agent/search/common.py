"""Functions that strategies share."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.attempts import Attempt, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import View

UNKNOWN_GAP = 5.0
"""The gap where there is no bound, or no time that counts: at which ROI is neither bold nor careful."""


def parent_of(view: View) -> Attempt:
    """Return the attempt to continue from: the best that counts, else the program as imported."""
    return view.best or view.attempts[0]


def gap_of(view: View) -> float:
    """Return the best time over the speed of light."""
    best, bound = view.best, view.task.bound_ms
    return best.ms / bound if best is not None and best.ms and bound else UNKNOWN_GAP


def right(attempt: Attempt) -> float | None:
    """Return the time of an attempt in ms where its results are right, audited or not: good enough to steer
    by.
    """
    return attempt.outcome.ms if attempt.outcome.status is Status.GOOD else None


def runners_up(view: View, tried: Sequence[int]) -> list[Attempt]:
    """Right attempts without hypotheses on them, fastest first."""
    found = [a for a in view.attempts if right(a) is not None and a.number not in tried]
    return sorted(found, key=lambda a: (right(a) or 0.0, a.number))


def summary_line(number: int, hypothesis: Hypothesis, parent_ms: float | None, own: Sequence[Attempt]) -> str:
    """Return the result of a hypothesis in one line of Markdown."""
    times = [ms for a in own if (ms := right(a)) is not None]
    if not own:
        came = "no program was written"
    elif not times:
        came = ", ".join(dict.fromkeys(str(a.outcome.status) for a in own))
    elif parent_ms:
        came = f"{parent_ms / min(times):.3f}x in {len(own)} attempts, {hypothesis.speedup:.2f}x expected"
    else:
        came = f"{min(times):.4f} ms in {len(own)} attempts"
    return f"* {number}. {hypothesis.title} ({hypothesis.kind}): {came}"
