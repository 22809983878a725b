"""The interface of evaluation: from candidates to outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mucc.agent.core.attempts import Candidate, Outcome
from mucc.agent.core.tasks import Task

Watch = Callable[[int, str], None]
"""Called with the place of a candidate and the stage that it enters: check, build, run or audit. From any
thread."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Median times in ms of the baselines and, where one was given, of a candidate (`mucc`), all on the same
    tensors in one process in turns. `failed` says for who could not be timed why."""

    ms: Mapping[str, float]
    failed: Mapping[str, str] = field(default_factory=dict[str, str])


class Evaluator(Protocol):
    """Compiles side by side, runs and times one after another, each in a process of its own. May be called
    from several threads. Whatever a candidate does is an outcome; raises DiagnosticError only where the
    machine, or the problem file itself, is at fault."""

    def evaluate(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        best_ms: float | None,
        watch: Watch | None = None,
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of each candidate by its place in `candidates`, as they are done.

        The fastest that beats `best_ms` (the best that counts so far) is audited; where it is rejected, the
        next. Others stay unaudited.
        """
        ...

    def compare(self, task: Task, candidate: Candidate | None) -> Comparison:
        """Time the baselines, and a candidate with them."""
        ...

    def library(self, task: Task, candidate: Candidate) -> str | None:
        """Return the path of the library that was built of a candidate; None if there is none."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...
