"""A run as it lies in its store, all of it, whether it has ended, goes on or was killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Call, Lesson
from mucc.agent.core.strategy import Budget
from mucc.agent.store import Document, RunInfo, Store, TaskRecord, TaskState
from mucc.api.diagnostics import DiagnosticError
from mucc.api.json_types import from_json

DATABASE = "run.db"
"""The name of the store in the folder of a run."""


@dataclass(frozen=True)
class TaskRun:
    """A task with all that was done for it. `place` counts tasks from 0. `steps`, `batches` and `times` are
    by number of attempt; `asked` has the step of each call, and when it was kept."""

    place: int
    record: TaskRecord
    attempts: list[Attempt]
    pending: list[tuple[int, Candidate]]
    steps: dict[int, int]
    batches: dict[int, int]
    times: dict[int, float]
    hypotheses: dict[int, Hypothesis]
    calls: list[Call]
    asked: list[tuple[int, float]]
    documents: list[Document]

    @property
    def key(self) -> str:
        return self.record.task.key

    @cached_property
    def best(self) -> Attempt | None:
        """The fastest attempt that counts."""
        counted = [attempt for attempt in self.attempts if attempt.ms is not None]
        return min(counted, key=lambda attempt: attempt.ms or 0.0, default=None)

    @cached_property
    def by_number(self) -> dict[int, Attempt]:
        """The finished attempts."""
        return {attempt.number: attempt for attempt in self.attempts}

    @property
    def ended(self) -> bool:
        return self.record.state not in (TaskState.WAITING, TaskState.RUNNING)


@dataclass(frozen=True)
class Run:
    """All of a run. `info` is None where it was killed before it began."""

    path: str
    info: RunInfo | None
    tasks: list[TaskRun]
    lessons: list[Lesson]

    @property
    def name(self) -> str:
        folder, name = os.path.split(os.path.abspath(self.path))
        return os.path.basename(folder) if name == DATABASE else name

    @property
    def ended(self) -> bool:
        return all(task.ended for task in self.tasks)


def budget_of(info: RunInfo | None) -> Budget | None:
    """Return the budget of each task; None if the run does not say."""
    said: Any = info.options.get("budget") if info is not None else None
    try:
        return from_json(Budget, said)
    except (TypeError, ValueError):
        return None


def database_of(path: str) -> str:
    """Return the database of a run: of its folder, or the database itself."""
    return os.path.join(path, DATABASE) if os.path.isdir(path) else path


def read_run(path: str) -> Run:
    """Return the run in a folder, or in a database.

    Raises DiagnosticError: MU7201 to MU7204 of the store.
    """
    path = database_of(path)
    with _opened(path) as store:
        tasks = [_task(store, place, record) for place, record in enumerate(store.tasks())]
        return Run(path, store.info(), tasks, store.lessons())


def _task(store: Store, place: int, record: TaskRecord) -> TaskRun:
    key = record.task.key
    # Attempts before what they refer to, which is stored earlier: the run may be going on.
    attempts = store.attempts(key)
    asked = store.steps_of_calls(key)
    return TaskRun(
        place,
        record,
        attempts,
        [(number, candidate) for number, _, candidate in store.pending(key)],
        store.steps_of_attempts(key),
        store.batches_of_attempts(key),
        store.times_of_attempts(key),
        dict(store.hypotheses(key)),
        store.calls(key)[: len(asked)],
        asked,
        store.documents(key),
    )


@contextlib.contextmanager
def _opened(path: str) -> Generator[Store]:
    """Yield the store; a copy of it where its folder takes no files, which SQLite makes beside a database."""
    try:
        with Store(path) as store:
            store.info()
            yield store
            return
    except DiagnosticError as error:
        if error.diagnostics[0].code != "MU7203" or not os.path.isfile(path):
            raise
        if os.access(os.path.dirname(path) or ".", os.W_OK) and os.access(path, os.W_OK):
            raise
    with tempfile.TemporaryDirectory(prefix="mucc-report-") as folder:
        for ending in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path + ending, os.path.join(folder, DATABASE + ending))
        with Store(os.path.join(folder, DATABASE)) as store:
            yield store
