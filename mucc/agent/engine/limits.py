"""Decide when the search of a task stops: stop rules and budgets of time, tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.audit.findings import Label
from mucc.agent.budget.stopping import Standing, stop_reason
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.proposer import Call
from mucc.agent.core.strategy import Budget
from mucc.agent.core.tasks import Task


def reason_to_stop(
    budget: Budget, task: Task, attempts: Sequence[Attempt], calls: Sequence[Call], seconds: float
) -> str:
    """Return the reason to stop a search; empty if it goes on."""
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
    """Return the number of attempts that may begin together before the stop rules are checked again."""
    return Standing.after(times_of(attempts)).room(budget, baseline_of(task))


def times_of(attempts: Sequence[Attempt]) -> list[float | None]:
    """Return the times of the attempts that take from the budget; None where a time does not count."""
    return [a.ms for a in attempts if a.spent]


def baseline_of(task: Task) -> float | None:
    """Return the time of the fastest baseline in ms."""
    return min(task.baselines.values(), default=None)


def tokens_of(calls: Sequence[Call]) -> int:
    """Return the number of tokens of prompts and answers."""
    return sum(c.prompt_tokens + c.answer_tokens for c in calls)
