"""The stop rules, for the engine while a run goes on and for replays of stored runs alike."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.searching import Budget

PROGRESS = 0.005
"""The part of the best time by which a new one must be lower to count as progress."""


def stop_reason(
    budget: Budget, times: Sequence[float | None], bound_ms: float | None, baseline_ms: float | None
) -> str:
    """Why a search should stop after these attempts; empty where it should go on.

    `times` are of the attempts in order, in ms, None where one does not count; the first is the program as
    imported. `baseline_ms` is the fastest baseline: before it is beaten only the number of attempts ends a
    search. Source: the budgeting of μCUTLASS with SOL guidance (arXiv 2603.29010).
    """
    if len(times) - 1 >= budget.most:
        return f"{budget.most} attempts are spent"
    best, since = best_and_waiting(times)
    if best is None or (baseline_ms is not None and best >= baseline_ms):
        return ""
    if budget.epsilon is not None and bound_ms and best <= (1 + budget.epsilon) * bound_ms:
        return f"within {budget.epsilon:.0%} of the speed of light"
    if budget.window is not None and since >= budget.window:
        return f"no progress in {since} attempts"
    return ""


def best_and_waiting(times: Sequence[float | None]) -> tuple[float | None, int]:
    """The best time, and how many attempts there have been since the last progress."""
    best: float | None = None
    since = 0
    for ms in times:
        since += 1
        if ms is not None and (best is None or ms < best * (1 - PROGRESS)):
            best, since = ms, 0
    counted = [ms for ms in times if ms is not None]
    return min(counted, default=None), since
