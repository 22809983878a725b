"""Form stages: put every operation of a kernel into the `mu.stage` of the device kernel that runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from xdsl.context import Context
from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import PinOp, StageOp, YieldOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.passes.partition import Partition, Stage, dims_of
from mucc.passes.support import Pass, erase_dead
from mucc.walk import postorder


class _StageBuilder:
    """Copies into a region what one stage computes; the rest it captures from outside."""

    def __init__(self, partition: Partition, stage: Stage, outer: dict[SSAValue, SSAValue]):
        self.partition = partition
        self.stage = stage
        self.outer = outer
        self.block = Block()
        self.inner: dict[SSAValue, SSAValue] = {}

    def value(self, old: SSAValue) -> SSAValue:
        """The new value for an old one, computed in the region or captured."""
        for needed in postorder(self.partition.behind_pins(old), self._needs):
            self._value(needed)
        return self._value(old)

    def _needs(self, old: SSAValue) -> Sequence[SSAValue]:
        """The operands of a value that the region does not have yet."""
        if old in self.inner or old in self.stage.reads or not isinstance(old.owner, Operation):
            return ()
        return [self.partition.behind_pins(v) for v in old.owner.operands]

    def _value(self, old: SSAValue) -> SSAValue:
        old = self.partition.behind_pins(old)
        if (new := self.inner.get(old)) is not None:
            return new
        if old in self.stage.reads:
            return self.outer[old]
        if isinstance(owner := old.owner, PinOp):
            # The stage that copies a pinned parameter or view.
            return self._value(owner.operand)
        return self.copy(owner) if isinstance(owner, Operation) else old

    def copy(self, op: Operation) -> SSAValue:
        mapping: dict[SSAValue, SSAValue] = {}
        for operand in op.operands:
            mapping[operand] = self._value(operand) if operand in self.inner else self.value(operand)
        new = op.clone(mapping)
        self.block.add_op(new)
        self.inner[op.results[0]] = new.results[0]
        return new.results[0]

    def build(self, name: str, last: ReturnOp) -> StageOp:
        stage = self.stage
        origin = [stage.anchor] if stage.anchor is not None else []
        for op in (*origin, *stage.members):
            if op.results[0] not in self.inner:
                self.copy(op)
        values = [self.value(v) for v in stage.stored]
        self.block.add_op(yielded := YieldOp(values))
        types = [_stored_type(v) for v in values]
        result = StageOp(name, stage.kind, types, Region(self.block), pinned=stage.name is not None)
        result.location = next(_locations(stage), last.location)
        yielded.location = result.location
        # A bool of this stage that only others need is computed there.
        erase_dead(result.body)
        return result


def _stored_type(value: SSAValue) -> TensorType:
    shaped = Shaped.of(value.type)
    return TensorType.of(shaped.dims, shaped.element_type)


def _locations(stage: Stage) -> Iterator[LocationAttr]:
    """Places in the source that stand for a stage, the best first."""
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


def _form(kernel: KernelOp) -> None:
    block = kernel.body.block
    partition = Partition.of(block)
    stages = partition.in_order()
    names = _name_stages(stages, kernel, partition)
    old_ops = list(block.ops)
    last = block.last_op
    assert isinstance(last, ReturnOp)
    outer: dict[SSAValue, SSAValue] = {}
    for stage in stages:
        new = _StageBuilder(partition, stage, outer).build(names[stage], last)
        block.insert_op_before(new, last)
        outer.update(zip(stage.stored, new.outputs, strict=True))
    last.operands = [outer[partition.behind_pins(v)] for v in last.operands]
    for op in reversed(old_ops[:-1]):
        op.detach()
        op.erase()


class FormStages(Pass):
    """Partition each kernel into stages.

    ```
    %0 = mu.matmul %x, %w          %y = mu.stage "y" contraction {
    %1 = mu.add %0, %b      ->       %0 = mu.matmul %x, %w
    mu.return %1                     %1 = mu.add %0, %b
                                     mu.yield %1 }
                                   mu.return %y
    ```
    """

    name = "form-stages"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                _form(kernel)
