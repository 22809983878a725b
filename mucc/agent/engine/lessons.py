"""Lessons of a finished task for the proposers of later ones."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Lesson, features_of
from mucc.agent.core.tasks import Task


def lessons_of(
    task: Task, attempts: Sequence[Attempt], hypotheses: Sequence[Hypothesis], analysis: Analysis | None
) -> list[Lesson]:
    """One lesson for each hypothesis with attempts. Its speedup is the time of the hypothesis's parent over
    the best time of its attempts, None where no attempt was right."""
    times = {
        a.number: a.outcome.ms
        for a in attempts
        if a.outcome.status is Status.GOOD and a.outcome.ms is not None
    }
    features = {**features_of(task, analysis), "compiled": task.imported.compiled.value}
    found: list[Lesson] = []
    for number, hypothesis in enumerate(hypotheses):
        own = [a for a in attempts if a.candidate.hypothesis == number and a.spent]
        if not own:
            continue
        best = min((a for a in own if a.number in times), key=lambda a: times[a.number], default=None)
        before = times.get(hypothesis.parent)
        speedup = before / times[best.number] if best is not None and before else None
        change = best.candidate.change if best is not None else hypothesis.title
        found.append(Lesson(task.key, hypothesis.kind, change, speedup, features))
    return found
