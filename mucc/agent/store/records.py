"""Records of the store beside the types of agent/core."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypedDict

from mucc.agent.core.tasks import Task
from mucc.api.json_types import Json


class TaskState(StrEnum):
    """The state of a task."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    """Its search has ended, and its result was compared with the baselines."""
    SKIPPED = "skipped"
    """mucc has no kernels for it: no attempt was spent."""
    FAILED = "failed"
    """The problem file, or the machine, was at fault."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The request of a run. `options` are those of the command line, without secrets; their form is that of
    `engine.options.Options` and the problems."""

    command: str
    started: str
    mucc: str
    options: Json = field(default_factory=Json)
    card: str = ""
    versions: dict[str, str] = field(default_factory=dict[str, str])


class TaskResult(TypedDict, total=False):
    """The final comparison of a task: times in ms by name, speedups over the baselines, and the best attempt;
    empty before it."""

    precision: str
    card: str
    attempt: int | None
    ms: dict[str, float]
    speedups: dict[str, float]
    failed: dict[str, str]
    bound_ms: float | None
    gap: float | None
    label: str
    attempts: int


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task and where it stands. `stop` says why its search ended; `result` holds the final comparison
    (times in ms by name) and speedups; `seconds` what was spent by kind: agent (its own work), build, gpu,
    audit, model, wait."""

    task: Task
    state: TaskState = TaskState.WAITING
    stop: str = ""
    result: TaskResult = field(default_factory=TaskResult)
    seconds: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A finished step of a strategy: its fields, the result that was sent back, and when. The form of both
    depends on the `kind` of step."""

    index: int
    kind: str
    request: Json
    result: Any
    started: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Document:
    """The document of a phase: Measure, Analyze, Nominate, Triage, Implement or Summarize. Each has its own
    `data`."""

    phase: str
    markdown: str
    data: Json
    time: float = 0.0
