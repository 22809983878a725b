"""Plot the best time of a task against attempts, seconds and tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mucc.agent.core.attempts import Attempt
from mucc.agent.report.figures import tokens
from mucc.agent.report.reading import TaskRun


@dataclass(frozen=True, slots=True)
class Point:
    """The state after an attempt. `attempts`, `seconds` and `tokens` are what was spent until then: on the
    evaluations and model calls of this task, so that a pause of the run or its other tasks do not count."""

    number: int
    status: str
    counts: bool
    ms: float | None
    best_ms: float | None
    attempts: int
    seconds: float
    tokens: int


def points(run: TaskRun) -> list[Point]:
    """One for each finished attempt, in order."""
    found: list[Point] = []
    best: float | None = None
    attempts, seconds = 0, 0.0
    calls = sorted(zip(run.asked, run.calls, strict=True), key=lambda pair: pair[0])
    said = used = 0
    for attempt in run.attempts:
        step, when = run.steps.get(attempt.number, 0), run.times.get(attempt.number, math.inf)
        while said < len(calls) and (calls[said][0][0] < step or calls[said][0][1] <= when):
            used += tokens(calls[said][1])
            seconds += calls[said][1].seconds
            said += 1
        attempts += attempt.spent and attempt.number > 0
        seconds += evaluated(attempt)
        if attempt.ms is not None:
            best = attempt.ms if best is None else min(best, attempt.ms)
        outcome = attempt.outcome
        status = str(outcome.status)
        point = Point(attempt.number, status, outcome.counts, outcome.ms, best, attempts, seconds, used)
        found.append(point)
    return found


def evaluated(attempt: Attempt) -> float:
    """Return the seconds of an evaluation, without those in which it waited for others."""
    return math.fsum(s for stage, s in attempt.outcome.seconds.items() if stage != "wait")


def totals(run: TaskRun) -> tuple[int, float]:
    """Return the tokens and seconds of all evaluations and model calls of a task."""
    seconds = math.fsum(map(evaluated, run.attempts))
    return sum(map(tokens, run.calls)), seconds + math.fsum(call.seconds for call in run.calls)
