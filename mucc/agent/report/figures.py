"""The figures of a run: a row for each task, geometric means, where time went. Times in ms if not said."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import BASELINES, Compiled
from mucc.agent.report.reading import TaskRun
from mucc.agent.store import TaskState
from mucc.api.json_types import Json

OURS = "mucc"
"""The candidate's name in the final comparison, whose times in ms are the result's `ms`."""

KINDS = ("agent", "build", "gpu", "audit", "model", "wait")
"""What the seconds of a task are spent on."""


@dataclass(frozen=True)
class Row:
    """A task in the table against baselines.

    `ms` is the best time that counts, and `baselines` the baselines' times: those of the final comparison,
    which are measured in turns on the same tensors, or else (`provisional`) of the search. `attempts` were
    spent, the imported program not counted.
    """

    task: str
    state: TaskState
    precision: str
    compiled: str
    ms: float | None
    baselines: Mapping[str, float]
    provisional: bool
    bound_ms: float | None
    label: str
    attempts: int
    statuses: Mapping[str, int]
    stop: str
    problems: str
    seconds: Mapping[str, float]
    tokens: int
    cost: float | None

    @property
    def gap(self) -> float | None:
        """The best time over the speed of light."""
        return self.ms / self.bound_ms if self.ms and self.bound_ms else None

    @property
    def judged(self) -> bool:
        """Whether it belongs into means: it has ended, or there is a time that counts."""
        return self.ms is not None or self.state not in (TaskState.WAITING, TaskState.RUNNING)

    def speedup(self, baseline: str) -> float:
        """Return the baseline's time over the best, 1 where the task falls back to it."""
        theirs = self.baselines.get(baseline)
        return theirs / self.ms if theirs and self.ms else 1.0

    def to_json(self) -> Json:
        """Return the row as plain values."""
        return {
            "task": self.task,
            "state": self.state.value,
            "precision": self.precision,
            "compiled": self.compiled,
            "counts": self.ms is not None,
            "ms": self.ms,
            **{f"{name}_ms": self.baselines.get(name) for name in BASELINES},
            **{f"{name}_speedup": self.speedup(name) if self.judged else None for name in BASELINES},
            "provisional": self.provisional,
            "bound_ms": self.bound_ms,
            "gap": self.gap,
            "label": self.label,
            "attempts": self.attempts,
            "statuses": dict(self.statuses),
            "stop": self.stop,
            "problems": self.problems,
            "seconds": dict(self.seconds),
            "tokens": self.tokens,
            "cost": self.cost,
        }


def row_of(run: TaskRun) -> Row:
    """Return the row of a task."""
    record, task, best = run.record, run.record.task, run.best
    compared = numbers(record.result.get("ms"))
    ms = compared.get(OURS) if best is not None else None
    whole = task.imported.compiled is not Compiled.PART
    return Row(
        task=task.key,
        state=record.state,
        precision=task.precision,
        compiled=str(task.imported.compiled) if whole else f"{task.imported.share:.0%}",
        ms=ms if ms is not None else best.ms if best else None,
        baselines={n: v for n, v in (task.baselines | compared).items() if n in BASELINES and v > 0},
        provisional=best is not None and ms is None,
        bound_ms=task.bound_ms,
        label=best.outcome.label if best else "",
        attempts=spent(run),
        statuses=dict(Counter(str(attempt.outcome.status) for attempt in run.attempts)),
        stop=record.stop,
        problems=_problems(run),
        seconds=record.seconds,
        tokens=sum(map(tokens, run.calls)),
        cost=cost(run.calls),
    )


def spent(run: TaskRun) -> int:
    """Count the attempts that took from the budget: not the imported program, and no repeated one."""
    return sum(attempt.spent and attempt.number > 0 for attempt in run.attempts)


def tokens(call: Call) -> int:
    """Count the tokens that a model read and wrote."""
    return call.prompt_tokens + call.answer_tokens


def cost(calls: Iterable[Call]) -> float | None:
    """US dollars; None where no price is known."""
    known = [call.cost for call in calls if call.cost is not None]
    return math.fsum(known) if known else None


def numbers(value: Any) -> dict[str, float]:
    """Return the positive numbers of what should be a map from names to times."""
    if not isinstance(value, Mapping):
        return {}
    found = cast("Mapping[Any, Any]", value)
    return {str(k): float(v) for k, v in found.items() if isinstance(v, (int, float)) and 0 < v < math.inf}


def _problems(run: TaskRun) -> str:
    """Return the problems of a task: why it was not imported, what PyTorch runs, which baselines failed."""
    imported = run.record.task.imported
    parts: list[str] = []
    if imported.error:
        parts.append(f"{imported.error.get('code', '')} {imported.error.get('message', '')}".strip())
    if imported.opaque:
        names = dict.fromkeys(entry.operation for entry in imported.opaque)
        parts.append(f"PyTorch's: {', '.join(names)}")
    failed = run.record.result.get("failed")
    if isinstance(failed, Mapping):
        parts += [f"{k}: {v}" for k, v in cast("Mapping[Any, Any]", failed).items()]
    return "; ".join(parts)


def geomean(values: Sequence[float]) -> float:
    """Return the geometric mean; 1 of nothing."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else 1.0


def group_of(row: Row) -> str:
    """Return the folder of a problem: `gemm` of `gemm/square`, empty where there is none."""
    return row.task.rpartition("/")[0]


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Figures of all tasks, and of each folder where there are several.

    No task that has ended is left out of a mean: where nothing counts it is in it as 1, and `fallbacks` says
    how many these are. `unfinished` are left out.
    """
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(group_of(row), []).append(row)
    found = _of(rows, "")
    if len(groups) > 1:
        for name, own in groups.items():
            found |= _of(own, f"{name or 'others'}.")
    return found


def _of(rows: Sequence[Row], prefix: str) -> dict[str, float]:
    judged = [row for row in rows if row.judged]
    gaps = [row.gap for row in judged if row.gap is not None]
    found: dict[str, float] = {
        "tasks": len(rows),
        "unfinished": len(rows) - len(judged),
        "counted": sum(row.ms is not None for row in judged),
        "fallbacks": sum(row.ms is None for row in judged),
        **{f"over_{name}_geomean": geomean([row.speedup(name) for row in judged]) for name in BASELINES},
        "attempts": sum(row.attempts for row in rows),
        "tokens": sum(row.tokens for row in rows),
    }
    if gaps:
        found["gap_geomean"] = geomean(gaps)
    return {prefix + name: round(value, 4) for name, value in found.items()}


def seconds(rows: Sequence[Row]) -> dict[str, float]:
    """Where time went, over all tasks, by kind."""
    found: dict[str, float] = {}
    for row in rows:
        for kind, value in row.seconds.items():
            found[kind] = found.get(kind, 0.0) + value
    known = {kind: found.pop(kind) for kind in KINDS if kind in found}
    return known | found


def overhead(spent_s: Mapping[str, float]) -> float | None:
    """Return the agent's own part of all seconds; None where nothing was noted."""
    total = math.fsum(spent_s.values())
    return spent_s.get("agent", 0.0) / total if total > 0 else None
