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
        """Report that a run begins or goes on, with its number of tasks and its limit of attempts."""
        ...

    def task(self, task: Task, state: str, detail: str = "") -> None:
        """Report that a task enters a state, or a phase (`measure`, `nominate` …)."""
        ...

    def started(self, task: str, number: int, candidate: Candidate) -> None:
        """Report that an attempt begins."""
        ...

    def stage(self, task: str, number: int, stage: str) -> None:
        """Report that an attempt enters a stage of its evaluation: check, build, run or audit."""
        ...

    def called(self, task: str, calls: Sequence[Call]) -> None:
        """Report that calls of models ended."""
        ...

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        """Report the outcome of an attempt; `best_ms` is the best time that counts so far."""
        ...

    def closed(self) -> None:
        """Report that the run ends, or is interrupted."""
        ...
