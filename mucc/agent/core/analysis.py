"""The result of profiling a program: what limits it, and which settings of the `.mcu` to change."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mucc.api.json_types import Json


class Limit(StrEnum):
    """The class of a problem by its roofline."""

    COMPUTE = "compute"
    MEMORY = "memory"
    LATENCY = "latency"
    MIXED = "mixed"


class Severity(StrEnum):
    """How much time a cause costs."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def levers() -> tuple[str, ...]:
    """Return the names of what advice may suggest to change: settings, their parts, properties of kernels."""
    from mucc.api.schedules import SETTINGS

    settings = (name for s in SETTINGS.values() for name in (s.name, *s.parts))
    return (*settings, "fusion", "layout", "precision")


@dataclass(frozen=True, slots=True)
class Advice:
    """One finding of one tool: what is wrong, why, and what to change in the `.mcu`, best first.

    `stage` is the stage of the program (`mlp.h`), empty for the whole. `levers` name what a proposer may
    change, of `levers()`. `evidence` holds the counters behind it.
    """

    tool: str
    severity: Severity
    cause: str
    advice: list[str]
    stage: str = ""
    levers: list[str] = field(default_factory=list[str])
    evidence: Json = field(default_factory=Json)


@dataclass(frozen=True, slots=True)
class Analysis:
    """The class of a task, and what the tools of that class found. `missing` names what could not be read,
    and why."""

    limit: Limit
    gap: float | None
    advice: list[Advice] = field(default_factory=list[Advice])
    missing: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
