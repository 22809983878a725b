"""The context of a run, which all of its tasks share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.evaluator import Evaluator
from mucc.agent.core.progress import Progress
from mucc.agent.core.proposer import Call, Proposer
from mucc.agent.core.strategy import Strategy
from mucc.agent.core.tasks import Task
from mucc.agent.engine.options import Options
from mucc.agent.engine.turns import Interrupted, Turns
from mucc.agent.store import Store

Analyzer = Callable[[Task, Attempt, str | None], Analysis]
"""Profiles an attempt at a task, given its library."""


class SerializedProgress:
    """Reports progress from any thread, one call at a time; errors of the display are ignored."""

    def __init__(self, progress: Progress | None):
        self._progress = progress
        self._lock = threading.Lock()

    def _tell(self, what: str, *values: Any) -> None:
        if self._progress is None:
            return
        with self._lock:
            try:
                getattr(self._progress, what)(*values)
            except (BrokenPipeError, ValueError, OSError):
                self._progress = None

    def opened(self, tasks: int, attempts: int) -> None:
        self._tell("opened", tasks, attempts)

    def task(self, task: Task, state: str, detail: str = "") -> None:
        self._tell("task", task, state, detail)

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        self._tell("started", task, number, candidate)

    def stage(self, task: str, number: int, stage: str) -> None:
        self._tell("stage", task, number, stage)

    def called(self, task: str, calls: Sequence[Call]) -> None:
        self._tell("called", task, calls)

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        self._tell("finished", task, attempt, best_ms)

    def closed(self) -> None:
        self._tell("closed")


@dataclass(frozen=True)
class RunContext:
    """The store, folder and options of a run, its evaluator, proposer and strategy, progress, and task
    scheduler."""

    store: Store
    folder: str
    options: Options
    evaluator: Evaluator
    proposer: Proposer
    strategy: Strategy
    analyze: Analyzer
    progress: SerializedProgress
    turns: Turns
    stopped: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raise Interrupted if the run was asked to stop."""
        if self.stopped.is_set():
            raise Interrupted
