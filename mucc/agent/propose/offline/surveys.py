"""Compile programs for their kernels and estimates, each once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from mucc.agent.core.tasks import Task
from mucc.agent.propose.offline.features import Terms, terms_of
from mucc.agent.propose.offline.programs import NAME, Place, join, split
from mucc.api.diagnostics import DiagnosticError, Source
from mucc.api.schedules import Contraction, Move, Survey, parse_settings, survey, texts_of

KEPT = 128
"""Bodies that are remembered: those of a few tasks at a time."""

Choice = Mapping[Place, Move]
"""A schedule for every contraction of a program."""


@dataclass(frozen=True)
class Sketch:
    """Kernels without schedules, and what the compiler says of them."""

    body: str
    kernels: tuple[Survey, ...]

    @cached_property
    def contractions(self) -> dict[Place, Contraction]:
        """All products of all kernels in launch order."""
        return {(k.kernel, c.stage): c for k in self.kernels for c in k.contractions}

    @cached_property
    def other_us(self) -> dict[str, float]:
        """Microseconds of kernels that are no products, by their kind."""
        found: dict[str, float] = {}
        for kernel in self.kernels:
            products = {c.stage for c in kernel.contractions}
            for work in (w for w in kernel.works if w.stage not in products):
                found[work.kind] = found.get(work.kind, 0.0) + work.us
        return found

    @cached_property
    def launches(self) -> int:
        """Device kernels of a call."""
        return sum(len(k.works) for k in self.kernels)

    @cached_property
    def form(self) -> tuple[object, ...]:
        """Equal for bodies that become the same kernels, however they are written."""
        return tuple(
            (k.kernel, tuple((w.kind, round(w.us, 3)) for w in k.works), _products(k)) for k in self.kernels
        )

    def chosen(self) -> dict[Place, Move]:
        """Return the choice of the model where nothing is pinned."""
        return {place: c.chosen for place, c in self.contractions.items()}

    def us(self, choice: Choice) -> float:
        """Microseconds of a call by the model."""
        return sum(m.us for m in choice.values()) + sum(self.other_us.values())


def _products(kernel: Survey) -> tuple[tuple[str, str], ...]:
    return tuple((c.signature, c.body) for c in kernel.contractions)


@dataclass(frozen=True)
class Version:
    """A program: kernels, and the schedule of every contraction, `explicit` where its text has it."""

    sketch: Sketch
    choice: Choice
    explicit: frozenset[Place] = frozenset()

    @cached_property
    def text(self) -> str:
        """The whole program. What the model would choose anyhow is left out."""
        written = {place: self.choice[place].settings for place in self.choice if place in self.explicit}
        return join(self.sketch.body, self.sketch.kernels, written)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """A key that only equal programs share."""
        settings = ((place, tuple(sorted(m.settings.items()))) for place, m in self.choice.items())
        return (self.sketch.body, tuple(sorted(settings)))

    @cached_property
    def us(self) -> float:
        """Microseconds of a call by the model."""
        return self.sketch.us(self.choice)

    @cached_property
    def terms(self) -> Terms:
        """The features of the program."""
        return terms_of(self)

    @cached_property
    def skeletons(self) -> frozenset[str]:
        """The texts that nvcc compiles for the program."""
        return frozenset(m.skeleton for m in self.choice.values())

    def with_moves(self, moves: Mapping[Place, Move]) -> Version:
        """Return the same kernels with other schedules for some contractions."""
        return Version(self.sketch, {**self.choice, **moves}, self.explicit | frozenset(moves))


class Surveys:
    """Compiles programs for a task's target, card and dims, with a cache."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sketches: OrderedDict[tuple[object, ...], Sketch | None] = OrderedDict()
        self._versions: OrderedDict[tuple[str, ...], Version | None] = OrderedDict()

    def sketch(self, task: Task, body: str) -> Sketch | None:
        """Return the survey of kernels; None where they do not compile."""
        dims = dims_of(task)
        key = (task.target, task.card, tuple(sorted(dims.items())), body)
        with self._lock:
            if key not in self._sketches:
                self._sketches[key] = _asked(task, body, dims)
            self._sketches.move_to_end(key)
            if len(self._sketches) > KEPT:
                self._sketches.popitem(last=False)
            return self._sketches[key]

    def version(self, task: Task, text: str) -> Version | None:
        """Return the version of a program; None where it does not compile."""
        key = (task.target, task.card, text)
        if key not in self._versions:
            found = self._taken_apart(task, text)
            with self._lock:
                self._versions[key] = found
                while len(self._versions) > 4 * KEPT:
                    self._versions.popitem(last=False)
        return self._versions.get(key)

    def _taken_apart(self, task: Task, text: str) -> Version | None:
        try:
            parts = split(text, task.target)
        except DiagnosticError:
            return None
        if (sketch := self.sketch(task, parts.body)) is None:
            return None
        choice = sketch.chosen()
        explicit: set[Place] = set()
        for place, contraction in sketch.contractions.items():
            try:
                settings = texts_of(parse_settings(parts.settings(*place)))
            except ValueError:
                return None
            if not settings:
                continue
            if (move := contraction.move(settings)) is None:
                return None
            choice[place] = move
            explicit.add(place)
        return Version(sketch, choice, frozenset(explicit))


def _asked(task: Task, body: str, dims: Mapping[str, int]) -> Sketch | None:
    try:
        return Sketch(body, tuple(survey(Source(NAME, body), task.target, dims=dims, card=task.card)))
    except DiagnosticError:
        return None


def dims_of(task: Task) -> dict[str, int]:
    """Typical sizes of dims that the task's program leaves open."""
    return dict(task.sol.get("dims", {}))
