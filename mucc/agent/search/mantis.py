"""MANTIS: Measure, Analyze, Nominate, Triage, Implement, Summarize.

Each iteration profiles the best program, has twice as many hypotheses named as it will pursue, ranks them by
their return on investment at the gap that is left, and pursues the first; attempts that they leave over go to
the next in the ranking. Source: μCUTLASS with SOL guidance (arXiv 2603.29010).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis, roi
from mucc.agent.core.strategy import Analyze, Budget, Nominate, Pursue, Record, Step, Views
from mucc.agent.search.common import gap_of, parent_of, right, runners_up, summary_line
from mucc.api.json_types import Json

Named = tuple[int, Hypothesis]


@dataclass(frozen=True)
class Constants:
    """`nominated`: hypotheses named for each that is pursued. `parents`: programs from which ideas are asked
    for in an iteration before the search is over."""

    nominated: int = 2
    parents: int = 3


class Mantis:
    """The strategy MANTIS."""

    name = "mantis"
    Constants = Constants

    def __init__(self, budget: Budget, constants: Constants = Constants()):  # noqa: B008
        self.budget, self.constants = budget, constants

    def steps(self, views: Views) -> Generator[Step, Any, None]:
        """Yield the steps for one task."""
        analysed: set[int] = set()
        for iteration in range(1, self.budget.iterations + 1):
            best = parent_of(views.view())
            if best.number not in analysed:
                analysed.add(best.number)
                _: Analysis = yield Analyze(best.number)
            found = yield from self._nominate(views, best)
            if not found:
                return
            gap = gap_of(views.view())
            ranked = sorted(found, key=lambda pair: (-roi(pair[1], gap), pair[0]))
            yield _triage(iteration, gap, ranked, self.budget.hypotheses)
            attempts = yield from self._pursue(ranked)
            yield _summary(iteration, views, found, attempts)

    def _nominate(self, views: Views, best: Attempt) -> Generator[Step, Any, list[Named]]:
        """Hypotheses on the best program; where there are none, on those that come next."""
        count = self.constants.nominated * self.budget.hypotheses
        tried: list[int] = []
        parent: Attempt | None = best
        while parent is not None and len(tried) < self.constants.parents:
            tried.append(parent.number)
            found: list[Named] = yield Nominate(parent.number, count)
            if found:
                return found
            parent = next(iter(runners_up(views.view(), tried)), None)
        return []

    def _pursue(self, ranked: Sequence[Named]) -> Generator[Step, Any, list[Attempt]]:
        left = self.budget.hypotheses * self.budget.attempts
        waiting = [number for number, _ in ranked]
        made: list[Attempt] = []
        while waiting and left > 0:
            count = min(self.budget.hypotheses, left)
            each = min(self.budget.attempts, left // count)
            chosen, waiting = waiting[:count], waiting[count:]
            found: list[Attempt] = yield Pursue(tuple(chosen), each)
            made += found
            left -= sum(a.spent for a in found)
        return made


def _triage(iteration: int, gap: float, ranked: Sequence[Named], pursued: int) -> Record:
    lines = [
        f"# Triage, iteration {iteration}",
        "",
        f"The best is {gap:.2f} times the speed of light.",
        "",
        "| ROI | hypothesis | kind | expected | risks | |",
        "|---|---|---|---|---|---|",
    ]
    rows: list[Json] = []
    for place, (number, h) in enumerate(ranked):
        value = roi(h, gap)
        risks = f"{h.implementation_risk:g} x {h.performance_risk:g}"
        chosen = "pursued" if place < pursued else "in reserve"
        lines.append(
            f"| {value:.3f} | {number}. {h.title} | {h.kind} | {h.speedup:.2f}x | {risks} | {chosen} |"
        )
        rows.append({"number": number, "roi": round(value, 4), "pursued": place < pursued})
    data = {"iteration": iteration, "gap": gap, "ranking": rows}
    return Record("Triage", "\n".join(lines) + "\n", data)


def _summary(iteration: int, views: Views, found: Sequence[Named], made: Sequence[Attempt]) -> Record:
    view = views.view()
    times = {a.number: right(a) for a in view.attempts}
    lines = [f"# Summarize, iteration {iteration}", ""]
    rows: list[Json] = []
    for number, h in found:
        own = [a for a in made if a.candidate.hypothesis == number]
        if not own:
            continue
        before = times.get(h.parent)
        best = min((ms for a in own if (ms := right(a)) is not None), default=None)
        lines.append(summary_line(number, h, before, own))
        speedup = before / best if before and best else None
        rows.append({"hypothesis": number, "kind": h.kind, "attempts": len(own), "speedup": speedup})
    best_attempt = view.best
    if best_attempt is not None and best_attempt.ms is not None:
        lines += ["", f"The best is attempt {best_attempt.number} with {best_attempt.ms:.4f} ms."]
    else:
        lines += ["", "No attempt counts yet."]
    data = {
        "iteration": iteration,
        "best": best_attempt.number if best_attempt else None,
        "ms": best_attempt.ms if best_attempt else None,
        "lessons": rows,
    }
    return Record("Summarize", "\n".join(lines) + "\n", data)
