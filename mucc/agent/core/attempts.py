"""Candidates, their outcomes, and attempts, which are both together."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

from mucc.api.json_types import DiagnosticJson, Json


class FindingJson(TypedDict, total=False):
    """A finding of a detector."""

    detector: str
    label: str
    severity: str
    message: str
    facts: Json


class CaseJson(TypedDict):
    """The comparison of one call with the reference."""

    name: str
    seed: int
    scale: float
    correct: bool
    judged: bool
    excess: float
    largest: float
    why: str


class KernelTimeJson(TypedDict):
    """A kernel that a call ran, and whether it is the solution's own."""

    name: str
    calls: int
    us: float
    own: bool


class FailureJson(TypedDict):
    """Why a candidate gave no results, and what it printed."""

    message: str
    printed: str


class IsolationJson(TypedDict):
    """How the processes of an audit were confined: what was asked for, and the layers that hold."""

    asked: str
    layers: list[str]


class VerdictJson(TypedDict, total=False):
    """The verdict of an audit, as `mucc-agent audit --json` prints it. Times in ms; see docs/audit.md."""

    problem: str
    solution: str
    device: str
    card: str
    precision: str
    label: str
    accepted: bool
    verdict: str
    correct: bool
    findings: list[FindingJson]
    time_ms: float | None
    interval_ms: list[float] | None
    wall_ms: float | None
    reference_ms: float | None
    speedup: float | None
    bound_ms: float | None
    gap: float | None
    bound_note: str | None
    bound_whole: bool | None
    own_share: float | None
    kernels: list[KernelTimeJson]
    seed: int
    cases: list[CaseJson]
    failure: FailureJson | None
    seconds: dict[str, float]
    isolation: IsolationJson


class Status(StrEnum):
    """The status of an evaluated candidate. Every attempt has exactly one."""

    GOOD = "good"
    """Right, timed, and accepted by the audit where it was audited (`Outcome.audited`)."""
    INVALID = "invalid"
    """mucc rejected the program: `diagnostics` says why."""
    UNBUILT = "unbuilt"
    """nvcc or ptxas failed, or took too long."""
    WRONG = "wrong"
    """Its results differ from the reference's."""
    RAISED = "raised"
    """A call raised, by the kernels' own checks for example."""
    CRASHED = "crashed"
    """The process ended by a signal, or the GPU reported a fault."""
    TIMED_OUT = "timed out"
    """It did not end in time, and was ended."""
    OUT_OF_MEMORY = "out of memory"
    """Main memory or the GPU's was exceeded."""
    REJECTED = "rejected"
    """The audit rejected it: `label` and `verdict` say why."""
    REPEATED = "repeated"
    """The same program was tried before in this task: nothing was spent on it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program that may replace the imported one.

    `program` is a whole `.mcu` file: its kernels have the names, arguments and results of the imported ones,
    since the import's driver calls them; bodies, stages and schedules are free. `parent` is the attempt that
    it was made from, `hypothesis` the one that it tests, both by their numbers within the task; `change`
    says in one line what is different from the parent.
    """

    program: str
    change: str
    parent: int | None = None
    hypothesis: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an evaluation.

    Times: `ms` is the median of one call from a cold L2, None where it was not timed; `spread_ms` the
    distance of the quartiles. `diagnostics` are mucc's, as `--diagnostics=json` gives them. `seconds` is
    what each stage took: check, build, run, audit. `facts` are what the build and the run told on the way,
    for who analyses: registers, spills, the library's path in the cache, the error of the result. `printed`
    is the end of what it printed.
    """

    status: Status
    reason: str = ""
    ms: float | None = None
    spread_ms: float | None = None
    audited: bool = False
    label: str = ""
    verdict: VerdictJson | None = None
    diagnostics: list[DiagnosticJson] = field(default_factory=list[DiagnosticJson])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    facts: Json = field(default_factory=Json)
    printed: str = ""

    @property
    def counts(self) -> bool:
        """Whether its time may be claimed: right, timed, and accepted by the audit."""
        return self.status is Status.GOOD and self.audited and self.ms is not None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate with its outcome. `number` counts from 0 within the task; 0 is the program as imported."""

    number: int
    candidate: Candidate
    outcome: Outcome

    @property
    def ms(self) -> float | None:
        """Its time, None where it does not count."""
        return self.outcome.ms if self.outcome.counts else None

    @property
    def spent(self) -> bool:
        """Whether it takes from a budget of attempts: a repeated one does not."""
        return self.outcome.status is not Status.REPEATED
