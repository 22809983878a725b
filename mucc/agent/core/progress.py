"""The interface of progress displays. The engine calls it from several threads, one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import Task


class Progress(Protocol):
    """A progress display: the live view of a terminal, or plain lines."""

    def opened(self, tasks: int, attempts: int) -> None:
        """A run begins or goes on, with a number of tasks and of attempts at most."""
        ...

    def task(self, task: Task, state: str, detail: str = "") -> None:
        """A task enters a state, or a phase (`measure`, `nominate` …)."""
        ...

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        """An attempt begins."""
        ...

    def stage(self, task: str, number: int, stage: str) -> None:
        """An attempt enters a stage of its evaluation: check, build, run or audit."""
        ...

    def called(self, task: str, calls: Sequence[Call]) -> None:
        """Calls of models ended."""
        ...

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        """An attempt has its outcome; `best_ms` is the best time that counts so far."""
        ...

    def closed(self) -> None:
        """The run ends, or is interrupted."""
        ...
