"""The state of a run that goes on: one row for each task, and totals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import Task
from mucc.agent.store.records import TaskState

ENDED = (TaskState.DONE, TaskState.SKIPPED, TaskState.FAILED)
STATES = frozenset(state.value for state in TaskState)


@dataclass(slots=True)
class Running:
    """An attempt that has no outcome yet; `since` on the clock of time.monotonic."""

    change: str
    since: float
    stage: str = ""


@dataclass(slots=True)
class Row:
    """A task. `state` is one of TaskState; `phase` what a strategy does, with a detail."""

    task: Task
    state: str = TaskState.WAITING
    phase: str = ""
    detail: str = ""
    attempts: int = 0
    good: int = 0
    best_ms: float | None = None
    running: dict[int, Running] = field(default_factory=dict[int, Running])

    @property
    def gap(self) -> float | None:
        """The best time over the speed of light."""
        return self.best_ms / self.task.bound_ms if self.best_ms and self.task.bound_ms else None

    def speedup(self, baseline: str) -> float | None:
        """Return the time of a baseline over the best."""
        theirs = self.task.baselines.get(baseline)
        return theirs / self.best_ms if theirs and self.best_ms else None

    def now(self) -> str:
        """Return the current activity: stages of attempts, or else the phase."""
        if not self.running:
            return " ".join(filter(None, (self.phase, self.detail)))
        if len(self.running) == 1:
            ((number, attempt),) = self.running.items()
            return f"#{number} {attempt.stage or 'waits'}: {attempt.change}"
        stages = [attempt.stage or "waits" for attempt in self.running.values()]
        return ", ".join(f"{stages.count(stage)} {stage}" for stage in dict.fromkeys(stages))


class Board:
    """Collects all progress. Reading needs no lock: rows are only added."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.tasks = 0
        self.most = 0
        self.tokens = 0
        self.cost: float | None = None
        self.calls = 0
        self.began = time.monotonic()

    def opened(self, tasks: int, attempts: int) -> None:
        self.tasks, self.most = tasks, attempts

    def task(self, task: Task, state: str, detail: str = "") -> Row:
        row = self.rows.setdefault(task.key, Row(task))
        row.task = task
        if state in STATES:
            row.state, row.phase = state, ""
            if state in ENDED:
                row.running.clear()
        else:
            row.phase = state
            if row.state == TaskState.WAITING:
                row.state = TaskState.RUNNING
        row.detail = one_line(detail)
        return row

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        if row := self.rows.get(task):
            row.running[number] = Running(one_line(candidate.change), time.monotonic())

    def stage(self, task: str, number: int, stage: str) -> None:
        if (row := self.rows.get(task)) and (attempt := row.running.get(number)):
            attempt.stage = stage

    def called(self, task: str, calls: Sequence[Call]) -> None:
        for call in calls:
            self.calls += 1
            self.tokens += call.prompt_tokens + call.answer_tokens
            if call.cost is not None:
                self.cost = (self.cost or 0.0) + call.cost

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        if row := self.rows.get(task):
            row.running.pop(attempt.number, None)
            row.attempts += attempt.spent and attempt.number > 0
            row.good += attempt.ms is not None
            row.best_ms = best_ms

    @property
    def ended(self) -> int:
        """Tasks that are done, skipped or failed."""
        return sum(row.state in ENDED for row in list(self.rows.values()))

    @property
    def attempts(self) -> int:
        """Attempts that were finished since the display began, imported programs not counted."""
        return sum(row.attempts for row in list(self.rows.values()))


def one_line(text: str, most: int = 200) -> str:
    """Text without line breaks and control characters, cut after `most` characters."""
    clean = "".join(c if c.isprintable() else " " for c in text[: 2 * most])
    clean = " ".join(clean.split())
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"
