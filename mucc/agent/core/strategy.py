"""The interface of search: strategies are generators of steps, so that a killed run can go on.

A strategy yields a step and is sent what came of it. The engine keeps every result in the store before it
sends it, so after a restart it runs the strategy anew and sends what is kept, without doing anything twice.
A strategy must therefore depend on nothing but its parameters, the seed and what it is sent.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import View
from mucc.api.json_types import Json


@dataclass(frozen=True, slots=True)
class Analyze:
    """Profile an attempt (or take what is known). Sent back: Analysis."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Nominate:
    """Ask for hypotheses on an attempt. Sent back: list[tuple[int, Hypothesis]], with their numbers."""

    parent: int
    count: int


@dataclass(frozen=True, slots=True)
class Pursue:
    """Have hypotheses, given by number, implemented and evaluated: at most `attempts` of each, repairing on
    the way. Sent back: list[Attempt]."""

    hypotheses: tuple[int, ...]
    attempts: int


@dataclass(frozen=True, slots=True)
class Record:
    """Leave a document of a phase: Markdown for people, JSON for programs. Sent back: None."""

    phase: str
    markdown: str
    data: Json


Step = Analyze | Nominate | Pursue | Record


class Strategy(Protocol):
    """A way to search: `mantis`, `mi` or `mcts`."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    def steps(self, views: Views) -> Generator[Step, Any, None]:
        """Yield the steps for one task, until there are no more; the engine also stops it when a budget is
        spent.
        """
        ...


class Views(Protocol):
    """The state of a task, for its strategy to read at any time."""

    def view(self) -> View:
        """Return the task with all attempts so far."""
        ...

    def hypotheses(self) -> Sequence[Hypothesis]:
        """All hypotheses so far, by number."""
        ...


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a search for one task.

    MANTIS makes `iterations` of `hypotheses`, each with `attempts`; together they are the most attempts of
    any strategy, the one that is imported not counted. `epsilon` and `window` are the stop rules: once the
    best baseline is beaten, stop when the best is within (1 + epsilon) of the bound, or after `window`
    attempts without progress; None: never.
    """

    iterations: int = 5
    hypotheses: int = 2
    attempts: int = 4
    epsilon: float | None = None
    window: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    @property
    def most(self) -> int:
        """The largest number of attempts."""
        return self.iterations * self.hypotheses * self.attempts
