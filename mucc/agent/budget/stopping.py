"""When a search stops, and what going on may gain: for the engine while a run goes on, and for replays of
stored runs alike."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mucc.agent.core.strategy import Budget

PROGRESS = 0.005
"""The part of the best time by which a new one must be lower to count as progress."""


@dataclass(slots=True)
class Standing:
    """How far a search is: `attempts` that were spent, the program as imported not counted, the best time in
    ms that counts, and how many there have been `since` the last progress, or in all before any."""

    attempts: int = -1
    best_ms: float | None = None
    since: int = 0
    mark_ms: float | None = None
    """The time that counted as progress last."""

    @classmethod
    def after(cls, times: Iterable[float | None]) -> Standing:
        """After attempts with these times, the program as imported first; None where one does not count."""
        standing = cls()
        for ms in times:
            standing.add(ms)
        return standing

    def add(self, ms: float | None) -> None:
        """One more attempt."""
        self.attempts += 1
        self.since += 1
        if ms is None:
            return
        if self.mark_ms is None or ms < self.mark_ms * (1 - PROGRESS):
            self.mark_ms, self.since = ms, 0
        self.best_ms = ms if self.best_ms is None else min(self.best_ms, ms)

    def beats(self, baseline_ms: float | None) -> bool:
        """Whether there is a best, faster than the baseline where that is known."""
        return self.best_ms is not None and (baseline_ms is None or self.best_ms < baseline_ms)

    def reason(self, budget: Budget, bound_ms: float | None, baseline_ms: float | None) -> str:
        """Return the reason to stop a search; empty if it goes on. See `stop_reason`."""
        if self.attempts >= budget.most:
            return f"{budget.most} attempts are spent"
        if self.best_ms is None or not self.beats(baseline_ms):
            return ""
        if budget.epsilon is not None and bound_ms and self.best_ms <= (1 + budget.epsilon) * bound_ms:
            return f"within {budget.epsilon:.0%} of the speed of light"
        if budget.window is not None and self.since >= budget.window:
            return f"no progress in {self.since} attempts"
        return ""

    def room(self, budget: Budget, baseline_ms: float | None) -> int:
        """How many attempts may be begun together before the rules are asked again."""
        left = max(budget.most - self.attempts, 0)
        if budget.window is not None and self.beats(baseline_ms):
            left = min(left, max(budget.window - self.since, 1))
        return left


def stop_reason(
    budget: Budget, times: Sequence[float | None], bound_ms: float | None, baseline_ms: float | None
) -> str:
    """Return the reason to stop a search after these attempts; empty if it goes on.

    `times` are of the attempts in order, in ms, None where one does not count; the first is the program as
    imported. `baseline_ms` is the fastest baseline: before it is beaten only the number of attempts ends a
    search. Source: the budgeting of μCUTLASS with SOL guidance (arXiv 2603.29010).
    """
    return Standing.after(times).reason(budget, bound_ms, baseline_ms)


def best_and_waiting(times: Sequence[float | None]) -> tuple[float | None, int]:
    """Return the best time, and how many attempts there have been since the last progress."""
    standing = Standing.after(times)
    return standing.best_ms, standing.since


def expected_gain(best_ms: float | None, bound_ms: float | None, since: int) -> float:
    """Return what a further round at a task may gain: the logarithm of its gap, over one more than the
    attempts since the last progress.

    The logarithm since a set is judged by its geometric mean; a task at the bound gains nothing. Without a
    bound, or without a time that counts, the gap is taken as 2.
    """
    gap = best_ms / bound_ms if best_ms and bound_ms else 2.0
    return math.log(max(gap, 1.0)) / (1 + since)
