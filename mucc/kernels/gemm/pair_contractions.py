"""Pair contractions: two products of one left operand that meet in one epilogue become one stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Attribute, SSAValue

from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp, YieldOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.schedule_attributes import MainloopAttr
from mucc.dialects.mu.types import TensorType, is_packed
from mucc.dialects.rewriting import Pass
from mucc.kernels.gemm.axes import Pattern, classify, lhs_access, matmul_dims, rhs_access
from mucc.kernels.gemm.granules import may_be_wide
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.lowering.access import accesses, identity, is_inside, root_axes
from mucc.target import DEFAULT_TARGET


def _is_single(stage: StageOp) -> bool:
    """Whether a stage has one contraction."""
    return len(stage.contractions) == 1


def _stored(stage: StageOp) -> dict[SSAValue, SSAValue]:
    """Return the values that a stage's region computes, by output."""
    last = stage.body.block.last_op
    assert last is not None
    return dict(zip(stage.outputs, last.operands, strict=True))


def _reader(stage: StageOp) -> StageOp | None:
    """Return the first stage that reads a result of a stage."""
    readers = {use.operation.parent_op() for output in stage.outputs for use in output.uses}
    following = stage.next_op
    while following is not None and following not in readers:
        following = following.next_op
    return following if isinstance(following, StageOp) else None


def _meet(first: StageOp, second: StageOp) -> bool:
    """Whether the second stage needs of the first one's results only elements beside its accumulator."""
    (product,) = second.contractions
    stored = _stored(first)
    if rhs_access(second, product).base in stored or not first.contractions[0].pairs_with(product):
        return False
    if first.space != second.space:
        return False
    met = [a for a in accesses(second) if a.base in stored]
    whole = identity(second.space)
    return bool(met) and all(
        a.axes == whole and is_inside(stored[a.base], first) and root_axes(stored[a.base], first) == whole
        for a in met
    )


def _is_wide(kernel: KernelOp, type: Attribute) -> bool:
    """Whether elements of a matrix can be read side by side, from rows of whole 16 bytes."""
    return isinstance(type, TensorType) and not is_packed(type.element_type) and may_be_wide(kernel, type)


def _read_in_place(first: StageOp, second: StageOp) -> bool:
    """Whether pointwise work reads all tensors where they lie, leaving aside what passes between the stages.

    Rows of matrices have to be such as tensor maps take, as have those of operands.
    """
    kernel = first.parent_op()
    assert isinstance(kernel, KernelOp)
    loads = [a for stage in (first, second) for a in accesses(stage) if a.base.owner is not first]
    for folded in {matmul_dims(stage).folded for stage in (first, second)}:
        patterns = [classify(a, first.space, folded) for a in loads]
        if None in patterns:
            return False
        if any(
            pattern is Pattern.MATRIX and not _is_wide(kernel, access.base.type)
            for pattern, access in zip(patterns, loads, strict=True)
        ):
            return False
    return True


def _fits(target: GemmTarget, first: StageOp, stage: StageOp) -> bool:
    """Whether the target's kernels take the operands, and store what the stages do."""
    k = len(stage.space) - 1
    (product,) = stage.contractions
    a, b = lhs_access(stage, product), rhs_access(stage, product)
    kernel = stage.parent_op()
    results = [v.type for v in stage.stored]
    results += [
        stored.type
        for v, stored in zip(first.outputs, first.stored, strict=True)
        if any(u.operation.parent_op() is not stage for u in v.uses)
    ]
    assert isinstance(kernel, KernelOp)
    if is_sparse(a.base.type) or is_sparse(b.base.type):
        return False
    matrices = [r for r in results if isinstance(r, TensorType) and r.rank == len(stage.space)]
    # Unaligned rows are left to kernels that have no pairs.
    if not all(may_be_wide(kernel, type) for type in (a.base.type, b.base.type, *matrices)):
        return False
    compute = product.compute.data.value
    return all(
        target.has_pairs(compute, a.unit_axis == k, b.unit_axis == k - 1, result.dtype)
        for result in matrices or [TensorType.of(stage.space, f32)]
    )


def _keeps_apart(schedule: ScheduleOp, first: StageOp, second: StageOp, target: GemmTarget) -> bool:
    """Whether a schedule is for the first stage alone, or asks for kernels that have no pairs."""
    if schedule.stage is not None and schedule.stage == first.stage_name:
        return True
    if schedule.stage is not None and schedule.stage != second.stage_name:
        return False
    mainloop = schedule.settings.data.get("mainloop")
    return isinstance(mainloop, MainloopAttr) and mainloop.data.value not in target.pair_mainloops


def _merge(first: StageOp, second: StageOp) -> None:
    """Move what the first stage computes into the second, with those of its outputs that others need."""
    stored = _stored(first)
    block, last = second.body.block, second.body.block.last_op
    start, end = block.first_op, first.body.block.last_op
    assert start is not None and last is not None and end is not None
    end.detach()
    end.erase()
    for op in list(first.body.block.ops):
        op.detach()
        block.insert_op_before(op, start)
    for output, value in stored.items():
        output.replace_uses_with_if(value, lambda use: use.operation.parent_block() is block)
    kept = [output for output in first.outputs if output.first_use is not None]
    values = [*last.operands, *(stored[output] for output in kept)]
    last.detach()
    last.erase()
    block.add_op(yielded := YieldOp(values))
    outputs = [*second.outputs, *kept]
    pinned = second.pinned is not None
    types = [output.type for output in outputs]
    merged = StageOp(second.stage_name.data, types, second.detach_region(0), pinned=pinned)
    merged.location = yielded.location = second.location
    kernel = second.parent_block()
    assert kernel is not None
    kernel.insert_op_before(merged, second)
    for old, new in zip(outputs, merged.outputs, strict=True):
        old.replace_all_uses_with(new)
    for stage in (second, first):
        stage.detach()
        stage.erase()


@dataclass(frozen=True)
class PairContractions(Pass):
    """Make one stage of two products where the target's kernels can compute them together.

    ```
    %g = mu.stage "s0" contraction {         %y = mu.stage "y" contraction {
      %0 = mu.matmul %x, %a                    %0 = mu.matmul %x, %a
      %1 = mu.silu %0                          %1 = mu.silu %0
      mu.yield %1 }                    ->      %2 = mu.matmul %x, %b
    %y = mu.stage "y" contraction {            %3 = mu.mul %1, %2
      %2 = mu.matmul %x, %b                    mu.yield %3 }
      %3 = mu.mul %g, %2
      mu.yield %3 }
    ```

    The right operands lie in memory alike, and the epilogue reads everything where it lies. Both stages may
    also reduce, and store what others read. A first stage that the user pinned stays as it is.
    """

    name = "pair-contractions"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        target = gemm_target(self.target)
        if not target.pair_mainloops:
            return
        schedules = [s for s in op.body.block.ops if isinstance(s, ScheduleOp)]
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                mine = [s for s in schedules if _is_for(s, kernel, self.target)]
                for first, second in _pairs(kernel, target, mine):
                    _merge(first, second)


def _is_for(schedule: ScheduleOp, kernel: KernelOp, target: str) -> bool:
    return schedule.kernel == kernel.sym_name and schedule.target == StringAttr(target)


def _pairs(
    kernel: KernelOp, target: GemmTarget, schedules: list[ScheduleOp]
) -> Iterator[tuple[StageOp, StageOp]]:
    for first in [op for op in kernel.body.block.ops if isinstance(op, StageOp)]:
        if first.parent is None or first.pinned is not None or not _is_single(first):
            continue
        second = _reader(first)
        if second is None or not _is_single(second) or not _meet(first, second):
            continue
        if not _fits(target, first, second):
            continue
        if not _read_in_place(first, second):
            continue
        if not any(_keeps_apart(s, first, second, target) for s in schedules):
            yield first, second
