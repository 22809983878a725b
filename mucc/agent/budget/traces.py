"""The trace of a search for replays: spending and results, attempt by attempt."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from mucc.agent.core.attempts import Attempt
from mucc.agent.core.tasks import Task


@dataclass(frozen=True, slots=True)
class Cost:
    """A cost: attempts, tokens of models, seconds of evaluations and models."""

    attempts: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        seconds = self.seconds + other.seconds
        return Cost(self.attempts + other.attempts, self.tokens + other.tokens, seconds)


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt: its time in ms where it counts, and what it took, with the calls of models since the one
    before."""

    ms: float | None
    cost: Cost


@dataclass(frozen=True, slots=True)
class Trace:
    """A task as it was searched: the program as imported, then rounds of attempts that were begun together.

    `key` names the problem, the same in all runs. `bound_ms` is the least time possible, `baseline_ms` the
    fastest baseline, `default_ms` the one that speedups are over; a task that was never timed has none.
    `after` is what was spent when the search was over, whatever the policy.
    """

    key: str
    bound_ms: float | None
    baseline_ms: float | None
    default_ms: float | None
    first: Try | None
    rounds: Sequence[Sequence[Try]] = field(default=())
    after: Cost = Cost()

    def tries(self) -> Iterator[Try]:
        """All attempts in order."""
        if self.first is not None:
            yield self.first
        for one in self.rounds:
            yield from one

    def speedup(self, best_ms: float | None) -> float:
        """Over PyTorch's defaults; a task without a result falls back to them, 1.

        Where all that the search has ever found is slower than PyTorch, no result counts as the first that
        was found: to stop before it is no gain.
        """
        if self.default_ms is None:
            return 1.0
        if best_ms is not None:
            return self.default_ms / best_ms
        first = next((t.ms for t in self.tries() if t.ms is not None), None)
        return min(1.0, self.default_ms / first) if first is not None else 1.0


def trace_of(
    task: Task,
    attempts: Sequence[Attempt],
    batches: dict[int, int],
    spent_until: Sequence[tuple[int, float]],
    total: tuple[int, float],
) -> Trace:
    """Return the trace of a task. `spent_until` has the tokens and seconds that were spent when each attempt
    was finished, `total` all of them.
    """
    tries: list[tuple[int, Try]] = []
    tokens, seconds = 0, 0.0
    for attempt, (tokens_now, seconds_now) in zip(attempts, spent_until, strict=True):
        spends = int(attempt.spent and attempt.number > 0)
        cost = Cost(spends, tokens_now - tokens, max(seconds_now - seconds, 0.0))
        tokens, seconds = tokens_now, seconds_now
        tries.append((batches.get(attempt.number, attempt.number), Try(attempt.ms, cost)))
    imported = bool(attempts) and attempts[0].number == 0
    first = tries[0][1] if imported else None
    rounds = [[one for _, one in group] for _, group in groupby(tries[imported:], key=lambda pair: pair[0])]
    known = [ms for ms in task.baselines.values() if 0 < ms < math.inf]
    default = task.baselines.get("default", max(known, default=None))
    after = Cost(0, total[0] - tokens, max(total[1] - seconds, 0.0))
    return Trace(task.key, task.floor_ms, min(known, default=None), default, first, rounds, after)
