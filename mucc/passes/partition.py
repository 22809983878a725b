"""Deciding which operation runs in which device kernel.

The operations of a kernel are visited in order. An anchor (a contraction, a reduction, a scan, ...) opens a
stage of the kind of kernel that claims it, unless the kernel of a stage that has its operand in flight takes
it as well. A pointwise operation joins the newest stage that has one of its operands in flight, when its
shape is the stage's and none of its other operands depends on that stage. What joins nothing floats: it is
pulled into every stage that needs it, and gets a map stage of its own only where memory needs it (an operand
that a kernel reads from memory, a pinned or returned value).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import VIEWS as PLAIN_VIEWS
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.dialects.walk import postorder
from mucc.kernels.interface import Joins, Kind
from mucc.kernels.registry import claimant
from mucc.kernels.traffic import NOTHING, Traffic
from mucc.passes.forming import Candidate, Decision, Needs, Place, Stage, added, best, joins, refused, wait
from mucc.passes.stored_forms import StoredForms

VIEWS = (*PLAIN_VIEWS, GatherOp)

NO_SIZES: Mapping[str, int] = MappingProxyType({})
"""Stages are formed for large open dims, and do not depend on the sizes that schedules are chosen for."""

WAITS = "an operand comes from a kernel that waits for this one"


def dims_of(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


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
    joined: dict[Operation, AnchorOp] = field(default_factory=dict[Operation, AnchorOp])
    """For each operation that joined a stage, what that is built around."""
    returned: set[SSAValue] = field(default_factory=set[SSAValue])
    """The results of the kernel, behind pins."""
    decisions: list[Decision] | None = None
    """Where each operation is computed, in order, if that is to be explained."""

    @staticmethod
    def of(
        block: Block,
        target: str | None = None,
        forms: StoredForms | None = None,
        earlier: Partition | None = None,
        *,
        explained: bool = False,
    ) -> Partition:
        """Partition the operations of a kernel's block for a target.

        `forms` are those of stored values. What `earlier` joined to a stage joins it again.
        """
        self = Partition(forms=forms or StoredForms(), target=target)
        self.decisions = [] if explained else None
        known = earlier.joined if earlier is not None else {}
        for op in block.ops:
            match op:
                case AnchorOp():
                    self._anchor(op, known.get(op))
                case GatherOp():
                    self._gather(op)
                case RegroupOp():
                    self._materialise(op.operand)
                case PinOp():
                    self._pin(op)
                case ReturnOp():
                    self._outputs(op)
                case ElementwiseOp():
                    self._pointwise(op, known.get(op))
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

    def kind_of(self, anchor: AnchorOp | None) -> Kind[Any]:
        """The kind of kernel that is built around an anchor, or computes pointwise work alone."""
        kind = claimant(anchor, self.target)
        assert kind is not None, f"no kind of kernel claims {anchor}"
        return kind

    def beside(self, value: SSAValue) -> list[Operation]:
        """The pointwise operations and reductions of the stage that computes a value."""
        stage = self.home.get(value)
        return stage.members if stage is not None else []

    def needs(self, value: SSAValue, *, is_narrow: bool = False) -> Needs:
        """The values in memory that computing `value` afresh would read, with their writers.

        A bool has no form in memory: it is computed again wherever it is needed. What is stored in f32 too is
        read so, but not by a kernel that takes it at its own dtype (`is_narrow`).
        """
        found: Needs = {}
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

    def _anchor(self, op: AnchorOp, earlier: AnchorOp | None) -> None:
        kind = self.kind_of(op)
        in_memory = kind.memory_operands(op)
        needs: Needs = {}
        for operand in in_memory:
            self._materialise(operand)
            needs |= self.needs(operand, is_narrow=True)
        home = self.home.get(op.operands[0]) if op.operands[0] not in in_memory else None
        candidates = [] if home is None else [self._taken(home, op, needs)]
        candidates.append(Candidate(Place.OPENED, None, Joins(NOTHING, 0)))
        chosen = best(candidates, NO_SIZES, earlier)
        if (stage := chosen.stage) is not None:
            self._join(stage, op)
        else:
            stage = Stage(kind, op, op.space)
            for operand in op.operands:
                if operand not in in_memory:
                    stage.read(self.needs(operand))
            self.stages.append(stage)
            if kind.keeps_in_flight(op):
                self.home[op.results[0]] = stage
        self._decide(op, chosen._replace(stage=stage), candidates)
        stage.read(needs)
        if op.results[0] not in self.home:
            self.written[op.results[0]] = stage
            stage.store(op.results[0])

    def _taken(self, stage: Stage, op: AnchorOp, needs: Needs) -> Candidate:
        """The stage that has the operand of a further anchor in flight as a place for that."""
        if wait(needs, stage):
            return refused(stage, WAITS)
        return Candidate(Place.JOINED, stage, stage.kind.takes(stage, op))

    def _join(self, stage: Stage, op: Operation) -> None:
        stage.members.append(op)
        if stage.anchor is not None:
            self.joined[op] = stage.anchor

    def _decide(self, op: Operation, chosen: Candidate, candidates: list[Candidate]) -> None:
        if self.decisions is not None:
            known = {c.stage for c in candidates}
            others = (self._unreached(v) for v in op.operands)
            more = {c.stage: c for c in others if c is not None and c.stage not in known | {chosen.stage}}
            self.decisions.append(Decision(op, chosen, [*candidates, *more.values()]))

    def _unreached(self, operand: SSAValue) -> Candidate | None:
        """The stage that an operand comes from, and why nothing that reads it joins that."""
        pin, root = operand.owner, self.root(operand)
        if (stage := self.writer(root)) is None:
            return None
        if isinstance(pin, PinOp):
            return refused(stage, f"`stage {pin.stage.data} = ...` ends the stage")
        if stage is self.home.get(operand):
            return refused(stage, "it reads its operands from memory")
        if stage is self.home.get(root) and isinstance(pin, Operation):
            return refused(stage, f"it reads the stage's value through {word(pin)}")
        if stage.anchor is None:
            return refused(stage, "a map stores the operand for kernels that read it from memory")
        return refused(stage, f"the result of {word(root.owner)} is read from memory")

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

    def _pointwise(self, op: ElementwiseOp, earlier: AnchorOp | None) -> None:
        homes = {stage for v in op.operands if (stage := self.home.get(v)) is not None}
        alone: Needs = {}
        if homes:
            for operand in op.operands:
                alone |= self.needs(operand)
        newest = sorted(homes, key=self.stages.index, reverse=True)
        candidates = [self._computed(stage, op, added(alone)) for stage in newest]
        candidates.append(Candidate(Place.RECOMPUTED, None, Joins()))
        chosen = best(candidates, NO_SIZES, earlier)
        if (stage := chosen.stage) is not None:
            for root in self._integers(stage, op):
                self._map([root])
            needs = self._elsewhere(stage, op)
            self._join(stage, op)
            stage.read(needs)
            self.home[op.result] = stage
        self._decide(op, chosen, candidates)

    def _computed(self, stage: Stage, op: ElementwiseOp, alone: Traffic) -> Candidate:
        """A stage as a place for pointwise work, which moves `alone` if a map computes it."""
        if stage.space != dims_of(op.result):
            return refused(
                stage, f"its shape {_shape(dims_of(op.result))} is not the stage's {_shape(stage.space)}"
            )
        if op.computes_integers and not stage.kind.takes_integers:
            return refused(stage, f"{stage.kind.name} kernels compute no integers")
        needs = self._elsewhere(stage, op)
        if wait(needs, stage):
            return refused(stage, WAITS)
        integers = self._integers(stage, op)
        maps = Traffic.sum(Traffic.of(root.type) * 2 for root in integers)
        return joins(stage, alone - added(needs, stage) - maps, 1 - len(integers))

    def _elsewhere(self, stage: Stage, op: ElementwiseOp) -> Needs:
        """The values in memory that an operation needs in a stage, besides what is in flight there."""
        needs: Needs = {}
        for operand in op.operands:
            if self.home.get(operand) is not stage:
                needs |= self.needs(operand)
        return needs

    def _integers(self, stage: Stage, op: ElementwiseOp) -> list[SSAValue]:
        """The integers behind operands that maps have to store for a kernel without integers."""
        if stage.kind.takes_integers:
            return []
        found: list[SSAValue] = []
        pending = [v for v in reversed(op.operands) if self.home.get(v) is not stage]
        seen = set[SSAValue]()
        while pending:
            root = self.root(pending.pop())
            if root in seen or self.writer(root) is not None or not isinstance(root.owner, ElementwiseOp):
                continue
            seen.add(root)
            if root.owner.computes_integers and Shaped.of(root.type).element_type != i1:
                found.append(root)
            else:
                pending += root.owner.operands
        return found

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
            self.returned.add(value)
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
        stage = Stage(self.kind_of(None), None, dims_of(values[0]))
        for value in copies or values:
            stage.read(self.needs(value))
        for value in values:
            stage.store(value)
            if isinstance(value.owner, Operation):
                # A copy of a parameter is for its reader alone: others read the parameter.
                self.written[value] = stage
        self.stages.append(stage)
        return stage

    def recomputed(self, stage: Stage) -> set[Operation]:
        """The pointwise operations that a stage computes though they did not join it: others may, too."""
        anchors = [] if stage.anchor is None else [stage.anchor]
        in_memory = {v for op in anchors for v in self.kind_of(op).memory_operands(op)}
        pending = [v for op in (*anchors, *stage.members) for v in op.operands if v not in in_memory]
        pending += stage.stored
        found: set[Operation] = set()
        while pending:
            for value in self.looked_at(pending.pop()):
                known = self.forms.wide.get(value, value) in stage.reads or value in stage.reads
                if isinstance(op := value.owner, ElementwiseOp) and not known and op not in found:
                    found.add(op)
                    pending += op.operands
        return found - set(stage.members)

    def in_order(self) -> list[Stage]:
        """The stages, each after those that it reads from, otherwise as they were opened."""
        done: dict[Stage, None] = {}
        for stage in self.stages:
            done |= dict.fromkeys(postorder(stage, lambda s: s.reads.values(), done))
        return list(done)


def _shape(dims: Dims) -> str:
    return f"[{', '.join(map(str, dims))}]"


def word(op: Operation | Block) -> str:
    """What people call an operation of `mu`."""
    if isinstance(op, ReduceOp):
        return op.kind.data
    return op.name.removeprefix("mu.") if isinstance(op, Operation) else "a parameter"


def _by_shape(values: Iterable[SSAValue]) -> list[list[SSAValue]]:
    """Values of equal shape together, in order, each once."""
    groups: dict[Dims, list[SSAValue]] = {}
    for value in values:
        group = groups.setdefault(dims_of(value), [])
        if value not in group:
            group.append(value)
    return list(groups.values())
