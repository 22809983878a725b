"""What the store holds beside the terms of agent/core."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mucc.agent.core.tasks import Task


class TaskState(StrEnum):
    """How far a task is."""

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
    """What a run was asked to do. `options` are those of the command line, without anything secret."""

    command: str
    started: str
    mucc: str
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    card: str = ""
    versions: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task and where it stands. `stop` says why its search ended; `result` holds the final comparison
    (times in ms by name) and speedups; `seconds` what was spent by kind: agent (its own work), build, gpu,
    audit, model, wait."""

    task: Task
    state: TaskState = TaskState.WAITING
    stop: str = ""
    result: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step of a strategy that is finished: what was asked, what was sent back, and when."""

    index: int
    kind: str
    request: dict[str, Any]
    result: Any
    started: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Document:
    """What a phase left: Measure, Analyze, Nominate, Triage, Implement or Summarize."""

    phase: str
    markdown: str
    data: dict[str, Any]
    time: float = 0.0
