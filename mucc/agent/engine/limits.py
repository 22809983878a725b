"""When the search of a task stops: the stop rules, and what it may spend."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.audit.findings import Label
from mucc.agent.budget.stopping import Standing, stop_reason
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.proposing import Call
from mucc.agent.core.searching import Budget
from mucc.agent.core.tasks import Task


def reason_to_stop(
    budget: Budget, task: Task, attempts: Sequence[Attempt], calls: Sequence[Call], seconds: float
) -> str:
    """Why a search should go no further; empty where it should."""
    for attempt in attempts:
        if attempt.outcome.label == Label.INHERITED_GAMING:
            return f"nothing can be shown: {attempt.outcome.reason}"
    if why := stop_reason(budget, times_of(attempts), task.floor_ms, baseline_of(task)):
        return why
    if budget.seconds is not None and seconds >= budget.seconds:
        return f"{budget.seconds:g} s are spent"
    if budget.tokens is not None and (tokens := tokens_of(calls)) >= budget.tokens:
        return f"{tokens} tokens are spent"
    if budget.cost is not None and (cost := sum(c.cost or 0.0 for c in calls)) >= budget.cost:
        return f"{cost:.2f} $ are spent"
    return ""


def room(budget: Budget, task: Task, attempts: Sequence[Attempt]) -> int:
    """How many attempts may be begun together before a stop rule is asked again."""
    return Standing.after(times_of(attempts)).room(budget, baseline_of(task))


def times_of(attempts: Sequence[Attempt]) -> list[float | None]:
    """The times that count, of the attempts that take from the budget."""
    return [a.ms for a in attempts if a.spent]


def baseline_of(task: Task) -> float | None:
    """The fastest baseline."""
    return min(task.baselines.values(), default=None)


def tokens_of(calls: Sequence[Call]) -> int:
    """Tokens in and out."""
    return sum(c.prompt_tokens + c.answer_tokens for c in calls)
