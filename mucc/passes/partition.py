"""Deciding which operation runs in which device kernel.

The operations of a kernel are visited in order. A contraction opens a stage; a pointwise operation
joins the stage of the newest contraction among its operands when its shape is the stage's and none
of its other operands depends on that stage; a reduction of such a value joins as well, where an
epilogue can reduce. What joins nothing floats: it is pulled into every stage that needs it, and gets
a map stage of its own only where memory needs it (an operand of a contraction, a pinned or returned
value).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.indexed import GatherOp, ScatterOp
from mucc.dialects.mu.ops.kernel import ReturnOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.stage import PinOp, StageKind
from mucc.dialects.mu.ops.views import VIEWS as PLAIN_VIEWS
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.types import Dims, Shaped
from mucc.dialects.walk import postorder
from mucc.passes.stored_forms import StoredForms

VIEWS = (*PLAIN_VIEWS, GatherOp)


def dims_of(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


@dataclass(eq=False)
class Stage:
    """A device kernel in the making: what it is built around, what joined it, what it reads and stores."""

    kind: StageKind
    anchor: Operation | None
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


def epilogue_can_reduce(op: ReduceOp, space: Dims) -> bool:
    """Whether a contraction's epilogue can do this reduction over its output's axes.

    CUTLASS reduces along N (one value per row), along M (one per column), or over both; with leading
    axes, also over all axes, or over all but N. It has no minimum, and no integers.
    """
    if op.kind.data is Reduction.MIN or Shaped.of(op.result.type).element_type == S32:
        return False
    rank, axes = len(space), tuple(op.axes.get_values())
    m, n = rank - 2, rank - 1
    return axes in {(n,), (m,), (m, n), tuple(range(rank)), tuple(range(rank - 1))}


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

    @staticmethod
    def of(block: Block, forms: StoredForms | None = None) -> Partition:
        """Partition the operations of a kernel's block, whose values are stored in these forms."""
        self = Partition(forms=forms or StoredForms())
        for op in block.ops:
            match op:
                case ContractionOp():
                    self._contraction(op)
                case GatherOp():
                    self._gather(op)
                case ScatterOp():
                    self._scatter(op)
                case ReduceOp():
                    self._reduction(op)
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

    def beside(self, value: SSAValue) -> list[Operation]:
        """The pointwise operations and reductions of the stage that computes a value."""
        stage = self.home.get(value)
        return stage.members if stage is not None else []

    def needs(self, value: SSAValue, *, is_factor: bool = False) -> dict[SSAValue, Stage]:
        """The values in memory that computing `value` afresh would read, with their writers.

        A bool has no form in memory: it is computed again wherever it is needed. What is stored in f32 too is
        read so, but not as an operand of a product.
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
            if not is_factor and self.writer(wide) is not None:
                root = wide
            stage = self.writer(root)
            if stage is not None and Shaped.of(root.type).element_type != i1:
                found[root] = stage
            elif isinstance(root.owner, ElementwiseOp):
                pending += reversed(root.owner.operands)
        return found

    # One kind of operation each

    def _contraction(self, op: ContractionOp) -> None:
        stage = Stage(StageKind.CONTRACTION, op, dims_of(op.result))
        for operand in op.operands:
            self._materialise(operand)
            stage.read(self.needs(operand, is_factor=True))
        self.stages.append(stage)
        self.home[op.result] = stage

    def _reduction(self, op: ReduceOp) -> None:
        stage = self.home.get(op.operand)
        grouped = stage is not None and isinstance(stage.anchor, GroupedMatmulOp)
        if stage is not None and not grouped and epilogue_can_reduce(op, stage.space):
            stage.members.append(op)
        else:
            stage = Stage(StageKind.REDUCTION, op, dims_of(op.operand))
            stage.read(self.needs(op.operand))
            self.stages.append(stage)
        self.written[op.result] = stage
        stage.store(op.result)

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

    def _scatter(self, op: ScatterOp) -> None:
        """Rows go where they belong as they are stored: by the contraction that computes them, or a map."""
        self._materialise(op.rows)
        stage, rows = self.home.get(op.operand), self.needs(op.rows)
        if (
            stage is not None
            and isinstance(stage.anchor, GroupedMatmulOp)
            and not stage.stored
            and not any(s.waits_for(stage) for s in rows.values())
        ):
            stage.members.append(op)
        else:
            stage = Stage(StageKind.SCATTER, op, dims_of(op.operand))
            stage.read(self.needs(op.operand))
            self.stages.append(stage)
        stage.read(rows)
        self.written[op.result] = stage
        stage.store(op.result)

    def _pointwise(self, op: ElementwiseOp) -> None:
        homes = {stage for v in op.operands if (stage := self.home.get(v)) is not None}
        fitting = [s for s in homes if s.space == dims_of(op.result) and not op.computes_integers]
        for stage in sorted(fitting, key=self.stages.index, reverse=True):
            needs: dict[SSAValue, Stage] = {}
            for operand in op.operands:
                if self.home.get(operand) is not stage:
                    self._integers(operand)
                    needs |= self.needs(operand)
            if not any(s.waits_for(stage) for s in needs.values()):
                stage.members.append(op)
                stage.read(needs)
                self.home[op.result] = stage
                return

    def _integers(self, value: SSAValue) -> None:
        """Have maps store the integers that a value is computed from: contractions compute with floats."""
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
        stage = Stage(StageKind.MAP, None, dims_of(values[0]))
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


def _by_shape(values: Iterable[SSAValue]) -> list[list[SSAValue]]:
    """Values of equal shape together, in order, each once."""
    groups: dict[Dims, list[SSAValue]] = {}
    for value in values:
        group = groups.setdefault(dims_of(value), [])
        if value not in group:
            group.append(value)
    return list(groups.values())
