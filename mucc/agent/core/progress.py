"""What the engine tells whoever watches a run. Called from several threads, one call at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import Task


class Progress(Protocol):
    """A watcher of a run: the live view of a terminal, plain lines, or nobody."""

    def opened(self, tasks: int, attempts: int) -> None:
        """A run begins, or goes on, with so many tasks and at the most so many attempts."""
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
        """Models were called."""
        ...

    def finished(self, task: str, attempt: Attempt, best_ms: float | None) -> None:
        """An attempt has an outcome; the best time that counts by now."""
        ...

    def closed(self) -> None:
        """The run ends, or is interrupted."""
        ...
