"""Measurements as values: a run of a program under one choice of schedules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from mucc.files.json_text import canonical

Settings = Mapping[str, str]
"""A schedule as source has it: the text of each setting by its name."""

Choice = Mapping[str, Settings]
"""A schedule for every contraction of a kernel, by stage."""


class Status(StrEnum):
    """What became of a candidate."""

    GOOD = "good"
    WRONG = "wrong"
    """It computes something else than the float64 interpreter."""
    FAULT = "fault"
    """The call was refused or failed, or the process died."""
    TIMEOUT = "timeout"
    BUILD = "build"
    """A compiler refused it."""


class Stage(NamedTuple):
    """A contraction of a kernel at given sizes, and the schedule that it ran with.

    `problem` is the signature of the workload, `body` tells pointwise work apart.
    """

    name: str
    problem: str
    body: str
    settings: Settings


class Run(NamedTuple):
    """How a choice of schedules did. Times are medians in microseconds with a cold L2.

    `final` says that the time comes from the last round, where the best take turns.
    """

    status: Status
    reason: str = ""
    time_us: float | None = None
    runs: int = 0
    final: bool = False
    error: float | None = None
    """The relative Frobenius distance to the float64 interpreter, the largest among outputs."""


@dataclass(frozen=True, slots=True)
class Record:
    """A measurement as it is kept.

    `kernel` is a digest of the kernel without its schedules, `name` what it is called, `support` a digest of
    mucc's own device code, `date` an ISO date and time in UTC. A candidate that was not built has no card.
    """

    target: str
    card: str
    kernel: str
    name: str
    dims: Mapping[str, int]
    stages: tuple[Stage, ...]
    run: Run
    support: str
    mucc: str
    date: str

    @property
    def choice(self) -> Choice:
        """The settings of each stage, by its name."""
        return {stage.name: stage.settings for stage in self.stages}

    @property
    def key(self) -> tuple[str, ...]:
        """What no two records share."""
        dims, choice = json.dumps(dict(self.dims)), choice_text(self.choice)
        return (self.target, self.card, self.kernel, dims, choice, self.support)

    @property
    def is_good(self) -> bool:
        """Whether it is right and was timed."""
        return self.run.status is Status.GOOD and self.run.time_us is not None

    @property
    def time_us(self) -> float:
        """The time; infinite where there is none."""
        return math.inf if self.run.time_us is None else self.run.time_us

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["stages"] = [{**stage._asdict(), "settings": dict(stage.settings)} for stage in self.stages]
        return {**data, "dims": dict(self.dims), "run": self.run._asdict()}

    @staticmethod
    def from_json(data: Any) -> Record:
        """Parse the record that `to_json` wrote. Raises ValueError for anything else."""
        try:
            run = data["run"]
            time_us, error = (None if run[n] is None else float(run[n]) for n in ("time_us", "error"))
            if time_us is not None and not 0 < time_us < math.inf:
                raise ValueError("a time must be above 0")
            texts = [data[name] for name in ("target", "card", "kernel", "name", "support", "mucc", "date")]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("a field has the wrong form")
            target, card, kernel, name, support, mucc, date = texts
            dims = {str(n): int(value) for n, value in data["dims"].items()}
            if not all(abs(number) < 2**63 for number in (*dims.values(), int(run["runs"]))):
                raise ValueError("a number is out of range")
            counted = (int(run["runs"]), bool(run["final"]), error)
            return Record(
                target,
                card,
                kernel,
                name,
                dims,
                tuple(_stage(stage) for stage in data["stages"]),
                Run(Status(run["status"]), str(run["reason"]), time_us, *counted),
                support,
                mucc,
                date,
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as problem:
            raise ValueError(f"no record of a measurement: {problem!r}") from None


def _stage(data: Any) -> Stage:
    settings = {str(name): str(text) for name, text in data["settings"].items()}
    return Stage(str(data["name"]), str(data["problem"]), str(data["body"]), settings)


def best(records: list[Record]) -> Record | None:
    """Return the fastest valid record; times of the last round rank first, as clocks differ."""
    return min((r for r in records if r.is_good), key=lambda r: (not r.run.final, r.time_us), default=None)


def choice_text(choice: Choice) -> str:
    """Return a key that equal choices share."""
    return canonical({stage: dict(settings) for stage, settings in choice.items()})


def skeleton_text(choice: Choice) -> str:
    """Return a key that choices with equal machine code share: no tile orders, no split counts."""
    from mucc.dialects.mu.settings import SETTINGS

    def compiled(name: str, text: str) -> str:
        return SETTINGS[name].skeleton(text) if name in SETTINGS else text

    return canonical({stage: {n: compiled(n, t) for n, t in s.items()} for stage, s in choice.items()})


def kernel_digest(text: str) -> str:
    """Tells kernels apart, whatever their schedules; `text` is the kernel's `mu` operation."""
    from mucc.files.digest import digest

    return digest(text)[:16]


@cache
def support_digest() -> str:
    """Tells versions of mucc apart whose kernels may differ in speed: a hash of its own device code."""
    from mucc.files.digest import digest, tree_contents
    from mucc.files.package import HEADERS

    return digest(tree_contents(*HEADERS))[:16]


def today() -> str:
    """Now, in UTC."""
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
