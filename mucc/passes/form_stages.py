"""Form stages: put every operation of a kernel into the `mu.stage` of the device kernel that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from mucc.dialects.mu.ops.attention import ScoresOp
from mucc.dialects.mu.ops.elementwise import CastOp, RetypeOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp, StageOp, YieldOp
from mucc.dialects.mu.types import LayoutAttr, Shaped, TensorType
from mucc.dialects.rewriting import Pass, erase_dead
from mucc.dialects.walk import postorder
from mucc.passes.forming import Stage
from mucc.passes.partition import Partition
from mucc.passes.stored_forms import stored_forms
from mucc.passes.values import VIEWS, dims_of
from mucc.target import DEFAULT_TARGET


class _StageBuilder:
    """Copies into a region what one stage computes; the rest it captures from outside."""

    def __init__(self, partition: Partition, stage: Stage, outer: dict[SSAValue, SSAValue]):
        self.partition = partition
        self.stage = stage
        self.outer = outer
        self.block = Block()
        self.inner: dict[SSAValue, SSAValue] = {}
        self.typed: dict[tuple[SSAValue, Attribute], SSAValue] = {}
        self.is_narrow = False
        """Whether what is read is read at its own dtype."""
        self.narrowed = {} if partition.forms.wide else self.inner
        """The values in the region for old ones, as far as those are read at their own dtype."""

    def value(self, old: SSAValue) -> SSAValue:
        """Return the new value for an old one, computed in the region or captured."""
        old = self.settled(old)
        for value in postorder(old, self.copied, self.inner):
            if self.captured(value) is None and isinstance(owner := value.owner, Operation):
                self.copy(owner)
        return self.known(old)

    def settled(self, value: SSAValue) -> SSAValue:
        """Return the value behind pins; for a pinned parameter or view the result of the stage that copies
        it.
        """
        value = self.partition.behind_pins(value)
        while value not in self.inner and self.captured(value) is None and isinstance(value.owner, PinOp):
            value = self.partition.behind_pins(value.owner.operand)
        return value

    def captured(self, value: SSAValue) -> SSAValue | None:
        """Return the value from outside that the stage reads for a settled one; None if it computes that."""
        wide = self.partition.forms.wide.get(value)
        if wide is not None and wide in self.stage.reads and not self.is_narrow:
            return self.outer[wide]
        return self.outer[value] if value in self.stage.reads else None

    def copied(self, value: SSAValue) -> list[SSAValue]:
        """Return the values that must be in the region before a settled value."""
        if self.captured(value) is not None or not isinstance(owner := value.owner, Operation):
            return []
        return [self.settled(operand) for operand in owner.operands]

    def known(self, value: SSAValue) -> SSAValue:
        """Return the new value for a settled one: its copy in the region, else the value that is captured."""
        if (new := self.inner.get(value)) is not None:
            return new
        return value if (outside := self.captured(value)) is None else outside

    def copy(self, op: Operation) -> SSAValue:
        """Copy an operation into the region, where its operands are."""
        narrow = self.in_memory(op)
        new = op.clone({v: self.narrow(v) if v in narrow else self.operand(op, v) for v in op.operands})
        self.block.add_op(new)
        result = new.results[0]
        if isinstance(op, VIEWS) and _element(new.operands[0]) != _element(result):
            # A look at what is stored in f32.
            old = Shaped.of(result.type)
            type = TensorType.of(old.dims, _element(new.operands[0]), _layout(result))
            result = Rewriter.replace_value_with_new_type(result, type)
        self.inner[op.results[0]] = result
        return result

    def operand(self, op: Operation, old: SSAValue) -> SSAValue:
        """Return the new value for an operand, with the dtype that the operation expects."""
        new = self.known(self.settled(old))
        if isinstance(op, VIEWS) or _element(new) == _element(old):
            return new
        key = (new, _element(old))
        if key not in self.typed:
            self.block.add_op(typed := RetypeOp(new, _element(old)))
            typed.location = op.location
            self.typed[key] = typed.result
        return self.typed[key]

    def whole(self, op: Operation) -> SSAValue:
        """Copy an operation into the region with all that it needs."""
        narrow = self.in_memory(op)
        for operand in op.operands:
            if operand in narrow:
                self.narrow(operand)
            else:
                self.value(operand)
        return self.copy(op)

    def in_memory(self, op: Operation) -> Sequence[SSAValue]:
        """Return the operands that the kernel of the stage's anchor reads from memory, at their own dtype."""
        if isinstance(op, ScoresOp):
            return op.operands
        anchor = self.stage.anchor
        return self.stage.kind.memory_operands(anchor) if anchor is op and anchor is not None else ()

    def narrow(self, old: SSAValue) -> SSAValue:
        """Return the new value for an operand that a kernel reads from memory, at its own dtype."""
        kept, self.inner, self.is_narrow = (self.inner, self.is_narrow), self.narrowed, True
        new = self.value(old)
        self.inner, self.is_narrow = kept
        return new

    def build(self, name: str, last: ReturnOp) -> StageOp:
        stage = self.stage
        if stage.anchor is not None:
            self.whole(stage.anchor)
        for op in stage.members:
            if op.results[0] not in self.inner:
                self.whole(op)
        values = [self.stored(v) for v in stage.stored]
        self.block.add_op(yielded := YieldOp(values))
        types = [_stored_type(v) for v in values]
        result = StageOp(name, types, Region(self.block), pinned=stage.name is not None)
        result.location = next(_locations(stage), last.location)
        yielded.location = result.location
        # A bool of this stage that only others need is computed there.
        erase_dead(result.body)
        return result

    def stored(self, old: SSAValue) -> SSAValue:
        """Return the new value for one that the stage stores, at its dtype."""
        new = self.value(old)
        if _element(new) == _element(old):
            return new
        self.block.add_op(cast := CastOp(new, _element(old)))
        if isinstance(old.owner, Operation):
            cast.location = old.owner.location
        return cast.result


def _element(value: SSAValue) -> Attribute:
    return Shaped.of(value.type).element_type


def _layout(value: SSAValue) -> LayoutAttr | None:
    return value.type.layout if isinstance(value.type, TensorType) else None


def _stored_type(value: SSAValue) -> TensorType:
    shaped = Shaped.of(value.type)
    return TensorType.of(shaped.dims, shaped.element_type)


def _locations(stage: Stage) -> Iterator[LocationAttr]:
    """Yield source locations for a stage, the best first."""
    owners = [stage.anchor, *(v.owner for v in stage.stored)]
    for op in owners:
        if isinstance(op, Operation) and not isinstance(op.location, UnknownLoc):
            yield op.location


def _name_stages(stages: list[Stage], kernel: KernelOp, partition: Partition) -> dict[Stage, str]:
    """Pinned names, then the name of the first and largest result that a stage writes, then numbers."""
    last = kernel.body.block.last_op
    assert isinstance(last, ReturnOp)
    results: dict[SSAValue, str] = {}
    for value, name in zip(last.operands, kernel.result_names, strict=True):
        results.setdefault(partition.behind_pins(value), name.data)
    names: dict[Stage, str] = {s: s.name for s in stages if s.name is not None}
    for stage in stages:
        returned = sorted((v for v in stage.stored if v in results), key=lambda v: -len(dims_of(v)))
        if stage not in names and returned and results[returned[0]] not in names.values():
            names[stage] = results[returned[0]]
    free = (n for i in count() if (n := f"s{i}") not in names.values())
    return {s: names[s] if s in names else next(free) for s in stages}


def divide(kernel: KernelOp, target: str, *, explained: bool = False) -> tuple[Partition, dict[Stage, str]]:
    """Partition a kernel for a target, and name its stages, in order.

    Inserts into the kernel what rounds, or stores in f32, the values that pass between stages.
    """
    block = kernel.body.block
    before = Partition.of(block, target)
    forms = stored_forms(block, before.beside, before.kind_of)
    partition = Partition.of(block, target, forms, before, explained=explained)
    return partition, _name_stages(partition.in_order(), kernel, partition)


def _form(kernel: KernelOp, target: str) -> None:
    block = kernel.body.block
    partition, names = divide(kernel, target)
    old_ops = list(block.ops)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    outer: dict[SSAValue, SSAValue] = {}
    for stage, name in names.items():
        new = _StageBuilder(partition, stage, outer).build(name, last)
        block.insert_op_before(new, last)
        outer.update(zip(stage.stored, new.outputs, strict=True))
    last.operands = [outer[partition.behind_pins(v)] for v in last.operands]
    for op in reversed(old_ops[:-1]):
        op.detach()
        op.erase()


@dataclass(frozen=True)
class FormStages(Pass):
    """Partition each kernel into stages, whose anchors kinds of kernels claim on a target.

    ```
    %0 = mu.matmul %x, %w          %y = mu.stage "y" contraction {
    %1 = mu.add %0, %b      ->       %0 = mu.matmul %x, %w
    mu.return %1                     %1 = mu.add %0, %b
                                     mu.yield %1 }
                                   mu.return %y
    ```
    """

    name = "form-stages"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                _form(kernel, self.target)
