"""Stages that are being formed, and the choice of where an operation is computed.

An operation may join a stage that has an operand of it in flight, be computed by a kernel of its own, or,
where it is pointwise, again in each kernel that reads it. Each of these candidates either is legal, with the
bytes and launches that it saves against a kernel of its own, or has a reason against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.types import Dims
from mucc.kernels.interface import Answer, Joins, Kind, Refused
from mucc.kernels.lowering.access import Axes
from mucc.kernels.traffic import Traffic


@dataclass(eq=False)
class Stage:
    """A device kernel in the making: what it is built around, what joined it, what it reads and stores."""

    kind: Kind[Any]
    anchor: AnchorOp | None
    space: Dims
    name: str | None = None
    members: list[Operation] = field(default_factory=list[Operation])
    reads: dict[SSAValue, Stage] = field(default_factory=dict[SSAValue, "Stage"])
    """Values that it reads from memory, with the stage that writes each."""
    stored: list[SSAValue] = field(default_factory=list[SSAValue])
    """Values that others read from memory."""
    axes: dict[SSAValue, Axes] = field(default_factory=dict[SSAValue, Axes])
    """Where the values that it has in flight lie in the space."""

    def waits_for(self, other: Stage) -> bool:
        """Whether this stage is the other one, or depends on values that the other one writes."""
        seen: set[Stage] = {self}
        pending: list[Stage] = [self]
        while pending and other not in seen:
            new = {*pending.pop().reads.values()} - seen
            seen |= new
            pending += new
        return other in seen

    def store(self, value: SSAValue) -> None:
        if value not in self.stored:
            self.stored.append(value)

    def read(self, needs: Needs) -> None:
        """Note that the stage reads values that other stages write."""
        for value, stage in needs.items():
            if stage is not self:
                stage.store(value)
                self.reads[value] = stage


Needs = dict[SSAValue, Stage]
"""Values in memory that something is computed from, with their writers."""


def wait(needs: Needs, stage: Stage) -> bool:
    """Whether a needed value is written by a stage that depends on this one."""
    return any(writer.waits_for(stage) for writer in needs.values())


def added(needs: Needs, stage: Stage | None = None) -> Traffic:
    """Return the bytes of a store and a read of each value that a stage, or a new one, does not yet read.

    A store counts although others may read the value, too: two products that meet may become one kernel,
    which stores neither for the other.
    """
    new = (v for v, w in needs.items() if w is not stage and (stage is None or v not in stage.reads))
    return Traffic.sum(Traffic.of(value.type) * 2 for value in new)


class Place(StrEnum):
    """Where an operation is computed."""

    JOINED = "joined"
    """In a stage with its operand."""
    OPENED = "opened"
    """In a stage that is built around it."""
    PAIRED = "paired"
    """In a stage that is built around it, which a pass of its kind merged into another one."""
    RECOMPUTED = "recomputed"
    """In each kernel that reads it."""
    STORED = "stored"
    """In a map, which stores it."""


class Candidate(NamedTuple):
    """A place for an operation: what it saves against a kernel of the operation's own, or why it is none."""

    place: Place
    stage: Stage | None
    answer: Answer

    @property
    def is_legal(self) -> bool:
        return isinstance(self.answer, Joins)


class Decision(NamedTuple):
    """Where an operation is computed, and which other places there were."""

    op: Operation
    chosen: Candidate
    candidates: Sequence[Candidate]


def best(
    candidates: Sequence[Candidate], sizes: Mapping[str, int], earlier: AnchorOp | None = None
) -> Candidate:
    """Return the legal candidate that saves the most bytes, then launches; of equal ones the first.

    A stage around `earlier` comes before all others: stages are formed twice, the second time with the forms
    of values in memory that follow from the first.
    """

    def rank(candidate: Candidate) -> tuple[bool, float, int]:
        answer = candidate.answer
        assert isinstance(answer, Joins)
        again = earlier is not None and candidate.stage is not None and candidate.stage.anchor is earlier
        return again, answer.saved.at(sizes), answer.launches

    return max((c for c in candidates if c.is_legal), key=rank)


def refused(stage: Stage, reason: str) -> Candidate:
    return Candidate(Place.JOINED, stage, Refused(reason))


def joins(stage: Stage, saved: Traffic, launches: int = 1) -> Candidate:
    return Candidate(Place.JOINED, stage, Joins(saved, launches))
