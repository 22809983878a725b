"""Deciding which operation runs in which device kernel.

The operations of a kernel are visited in order. An anchor (a contraction, a reduction, a scan, ...) opens a
stage of the kind of kernel that claims it, unless the kernel of a stage that has its operand in flight takes
it as well. A pointwise operation joins the newest stage that has one of its operands in flight, when its
shape is the stage's and none of its other operands depends on that stage. What joins nothing floats: it is
pulled into every stage that needs it, and gets a map stage of its own only where memory needs it (an operand
that a kernel reads from memory, a pinned or returned value).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS as PLAIN_VIEWS
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.dialects.walk import postorder
from mucc.kernels.interface import Kind
from mucc.kernels.registry import claimant
from mucc.passes.stored_forms import StoredForms

VIEWS = (*PLAIN_VIEWS, GatherOp)


def dims_of(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


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

    def waits_for(self, other: Stage) -> bool:
        """Whether this stage is, or reads directly or indirectly what is written by, the other."""
        seen: set[Stage] = set()
        pending: list[Stage] = [self]
        while pending:
            stage = pending.pop()
            if stage is other:
                return True
            if stage not in seen:
                seen.add(stage)
                pending += stage.reads.values()
        return False

    def store(self, value: SSAValue) -> None:
        if value not in self.stored:
            self.stored.append(value)

    def read(self, needs: dict[SSAValue, Stage]) -> None:
        """Read values that other stages write."""
        for value, stage in needs.items():
            if stage is not self:
                stage.store(value)
                self.reads[value] = stage


@dataclass(eq=False)
class Partition:
    """The stages of one kernel, and where each value lives."""

    stages: list[Stage] = field(default_factory=list[Stage])
    home: dict[SSAValue, Stage] = field(default_factory=dict[SSAValue, Stage])
    """In-flight values: computed in a stage, usable there without going through memory."""
    written: dict[SSAValue, Stage] = field(default_factory=dict[SSAValue, Stage])
    """Values to be read from memory only: reductions, pinned values, results of map stages."""
    pinned: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The result of a pin -> the value whose stored form it names."""
    forms: StoredForms = field(default_factory=StoredForms)
    target: str | None = None

    @staticmethod
    def of(block: Block, forms: StoredForms | None = None, target: str | None = None) -> Partition:
        """Partition the operations of a kernel's block for a target; `forms` are those of stored values."""
        self = Partition(forms=forms or StoredForms(), target=target)
        for op in block.ops:
            match op:
                case AnchorOp():
                    self._anchor(op)
                case GatherOp():
                    self._gather(op)
                case RegroupOp():
                    self._materialise(op.operand)
                case PinOp():
                    self._pin(op)
                case ReturnOp():
                    self._outputs(op)
                case ElementwiseOp():
                    self._pointwise(op)
                case _:
                    continue
        return self

    # Looking at values

    def behind_pins(self, value: SSAValue) -> SSAValue:
        """The value that a pin's result names."""
        while value in self.pinned:
            value = self.pinned[value]
        return value

    def root(self, value: SSAValue) -> SSAValue:
        """The value behind views and pins."""
        return self.looked_at(value)[0]

    def looked_at(self, value: SSAValue) -> list[SSAValue]:
        """The value behind views and pins, and those that say which rows of it are gathered."""
        value = self.behind_pins(value)
        rows: list[SSAValue] = []
        while isinstance(view := value.owner, VIEWS) and value not in self.written:
            if isinstance(view, GatherOp):
                rows += self.looked_at(view.rows)
            value = self.behind_pins(view.operand)
        return [value, *rows]

    def writer(self, value: SSAValue) -> Stage | None:
        """The stage that computes a value; None for parameters and for what no stage has claimed."""
        return self.home.get(value) or self.written.get(value)

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        """Whether the kernel around an anchor computes on with its result."""
        return self._kind(anchor).keeps_in_flight(anchor)

    def beside(self, value: SSAValue) -> list[Operation]:
        """The pointwise operations and reductions of the stage that computes a value."""
        stage = self.home.get(value)
        return stage.members if stage is not None else []

    def needs(self, value: SSAValue, *, is_narrow: bool = False) -> dict[SSAValue, Stage]:
        """The values in memory that computing `value` afresh would read, with their writers.

        A bool has no form in memory: it is computed again wherever it is needed. What is stored in f32 too is
        read so, but not by a kernel that takes it at its own dtype (`is_narrow`).
        """
        found: dict[SSAValue, Stage] = {}
        seen: set[SSAValue] = set()
        pending = [value]
        while pending:
            root, *rows = self.looked_at(pending.pop())
            pending += reversed(rows)
            if root in seen:
                continue
            seen.add(root)
            wide = self.forms.wide.get(root, root)
            if not is_narrow and self.writer(wide) is not None:
                root = wide
            stage = self.writer(root)
            if stage is not None and Shaped.of(root.type).element_type != i1:
                found[root] = stage
            elif isinstance(root.owner, ElementwiseOp):
                pending += reversed(root.owner.operands)
        return found

    # One kind of operation each

    def _kind(self, anchor: AnchorOp | None) -> Kind[Any]:
        kind = claimant(anchor, self.target)
        assert kind is not None, f"no kind of kernel claims {anchor}"
        return kind

    def _anchor(self, op: AnchorOp) -> None:
        kind = self._kind(op)
        in_memory = kind.memory_operands(op)
        needs: dict[SSAValue, Stage] = {}
        for operand in in_memory:
            self._materialise(operand)
            needs |= self.needs(operand, is_narrow=True)
        stage = self.home.get(op.operands[0]) if op.operands[0] not in in_memory else None
        if stage is not None and stage.kind.takes(stage, op) and not _wait(needs, stage):
            stage.members.append(op)
        else:
            stage = Stage(kind, op, op.space)
            for operand in op.operands:
                if operand not in in_memory:
                    stage.read(self.needs(operand))
            self.stages.append(stage)
            if kind.keeps_in_flight(op):
                self.home[op.results[0]] = stage
        stage.read(needs)
        if op.results[0] not in self.home:
            self.written[op.results[0]] = stage
            stage.store(op.results[0])

    def _gather(self, op: GatherOp) -> None:
        """Rows are picked as they are read, from memory: what is computed, or gathered itself, goes there."""
        self._materialise(op.rows)
        self._materialise(op.operand)
        value = self.behind_pins(op.operand)
        while isinstance(view := value.owner, VIEWS) and value not in self.written:
            if isinstance(view, GatherOp):
                self._map([value])
                return
            value = self.behind_pins(view.operand)

    def _pointwise(self, op: ElementwiseOp) -> None:
        homes = {stage for v in op.operands if (stage := self.home.get(v)) is not None}
        fitting = [s for s in homes if s.space == dims_of(op.result) and self._computes(s, op)]
        for stage in sorted(fitting, key=self.stages.index, reverse=True):
            needs: dict[SSAValue, Stage] = {}
            for operand in op.operands:
                if self.home.get(operand) is not stage:
                    if not stage.kind.takes_integers:
                        self._integers(operand)
                    needs |= self.needs(operand)
            if not _wait(needs, stage):
                stage.members.append(op)
                stage.read(needs)
                self.home[op.result] = stage
                return

    @staticmethod
    def _computes(stage: Stage, op: ElementwiseOp) -> bool:
        """Whether the kernel of a stage computes with such numbers."""
        return stage.kind.takes_integers or not op.computes_integers

    def _integers(self, value: SSAValue) -> None:
        """Have maps store the integers that a value is computed from, for a kernel without integers."""
        pending, seen = [value], set[SSAValue]()
        while pending:
            root = self.root(pending.pop())
            if root in seen or self.writer(root) is not None or not isinstance(root.owner, ElementwiseOp):
                continue
            seen.add(root)
            if root.owner.computes_integers and Shaped.of(root.type).element_type != i1:
                self._map([root])
            else:
                pending += root.owner.operands

    def _pin(self, op: PinOp) -> None:
        value = self.behind_pins(op.operand)
        if isinstance(value.owner, ElementwiseOp) and self.writer(value) is None:
            self._map([value])
        if (stage := self.writer(value)) is None:
            # A parameter or a view: the stage is a copy, and the pin's result is what it writes.
            stage = self._map([op.result], copies=[op.operand])
        else:
            # What is pinned is read from memory from here on: nothing joins its stage through it.
            self.pinned[op.result] = value
            self.home.pop(value, None)
            self.written[value] = stage
            stage.store(value)
        stage.name = stage.name or op.stage.data

    def _outputs(self, op: ReturnOp) -> None:
        lone: list[SSAValue] = []
        for operand in op.operands:
            value = self.behind_pins(operand)
            if (stage := self.writer(value)) is not None:
                stage.store(value)
            else:
                lone.append(value)
        for group in _by_shape(lone):
            self._map(group)

    def _materialise(self, value: SSAValue) -> None:
        """See to it that the value behind views will be in memory."""
        root = self.root(value)
        forms = self.forms.of(root)
        if isinstance(root.owner, ElementwiseOp) and all(self.writer(form) is None for form in forms):
            self._map(forms)

    def _map(self, values: Sequence[SSAValue], copies: Sequence[SSAValue] = ()) -> Stage:
        """A map stage that writes pointwise values, or copies of what is in memory."""
        stage = Stage(self._kind(None), None, dims_of(values[0]))
        for value in copies or values:
            stage.read(self.needs(value))
        for value in values:
            stage.store(value)
            if isinstance(value.owner, Operation):
                # A copy of a parameter is for its reader alone: others read the parameter.
                self.written[value] = stage
        self.stages.append(stage)
        return stage

    def in_order(self) -> list[Stage]:
        """The stages, each after those that it reads from, otherwise as they were opened."""
        done: dict[Stage, None] = {}
        for stage in self.stages:
            done |= dict.fromkeys(postorder(stage, lambda s: s.reads.values(), done))
        return list(done)


def _wait(needs: dict[SSAValue, Stage], stage: Stage) -> bool:
    """Whether a value that is needed comes from a stage that waits for this one."""
    return any(writer.waits_for(stage) for writer in needs.values())


def _by_shape(values: Iterable[SSAValue]) -> list[list[SSAValue]]:
    """Values of equal shape together, in order, each once."""
    groups: dict[Dims, list[SSAValue]] = {}
    for value in values:
        group = groups.setdefault(dims_of(value), [])
        if value not in group:
            group.append(value)
    return list(groups.values())
