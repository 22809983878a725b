"""Pair contractions: two products of one left operand that meet in one epilogue become one stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageKind, StageOp
from mucc.dialects.mu.rules import is_sparse
from mucc.dialects.mu.schedule import MainloopAttr, ScheduleOp
from mucc.dialects.mu.types import TensorType
from mucc.passes.access import (
    Access,
    Pattern,
    accesses,
    classify,
    identity,
    is_inside,
    lhs_access,
    problem_of,
    rhs_access,
    root_axes,
)
from mucc.passes.granules import may_be_wide
from mucc.passes.support import Pass
from mucc.target import get_target
from mucc.target.base import Target


def _is_simple(stage: StageOp) -> bool:
    """Whether a stage has one contraction, reduces nothing, and stores one matrix that fills its space."""
    if stage.kind.data is not StageKind.CONTRACTION:
        return False
    if len(stage.contractions) != 1 or len(stage.outputs) != 1:
        return False
    last = stage.body.block.last_op
    assert last is not None
    (stored,) = last.operands
    reduces = any(isinstance(op, ReduceOp) for op in stage.body.block.ops)
    return not reduces and is_inside(stored, stage) and root_axes(stored, stage) == identity(stage.space)


def _reader(stage: StageOp) -> StageOp | None:
    """The only stage that reads what a stage stores."""
    readers = {use.operation.parent_op() for use in stage.outputs[0].uses}
    (reader,) = readers if len(readers) == 1 else (None,)
    return reader if isinstance(reader, StageOp) else None


def _meet(first: StageOp, second: StageOp) -> bool:
    """Whether the first stage's result is needed only beside the second's accumulator."""
    (product,) = second.contractions
    if rhs_access(second, product).base is first.outputs[0] or not first.contractions[0].pairs_with(product):
        return False
    here = Access(first.outputs[0], identity(second.space))
    return all(a == here for a in accesses(second) if a.base is here.base)


def _reads_vectors(stage: StageOp, but: Operation | None = None) -> bool:
    """Whether pointwise work reads no matrix but the results of one stage."""
    problem, rank = problem_of(stage), len(stage.space)
    loads = [a for a in accesses(stage) if but is None or a.base.owner is not but]
    return all(classify(a, rank, problem.folded) not in (Pattern.MATRIX, None) for a in loads)


def _fits(target: Target, stage: StageOp, product: MatmulOp) -> bool:
    k = len(stage.space) - 1
    a, b = lhs_access(stage, product), rhs_access(stage, product)
    kernel, result = stage.parent_op(), stage.outputs[0].type
    assert isinstance(kernel, KernelOp) and isinstance(result, TensorType)
    if is_sparse(a.base.type) or is_sparse(b.base.type):
        return False
    # Unaligned rows are left to kernels that have no pairs.
    if not all(may_be_wide(kernel, type) for type in (a.base.type, b.base.type, result)):
        return False
    compute = product.compute.data.value
    return target.has_pairs(compute, a.unit_axis == k, b.unit_axis == k - 1, result.dtype)


def _keeps_apart(schedule: ScheduleOp, first: StageOp, second: StageOp, target: Target) -> bool:
    """Whether a schedule is for the first stage alone, or asks for kernels that have no pairs."""
    if schedule.stage is not None and schedule.stage == first.stage_name:
        return True
    if schedule.stage is not None and schedule.stage != second.stage_name:
        return False
    mainloop = schedule.settings.data.get("mainloop")
    return isinstance(mainloop, MainloopAttr) and mainloop.data.value not in target.pair_mainloops


def _merge(first: StageOp, second: StageOp) -> None:
    """Move what the first stage computes into the second."""
    block, start = second.body.block, second.body.block.first_op
    last = first.body.block.last_op
    assert start is not None and last is not None
    (computed,) = last.operands
    last.detach()
    last.erase()
    for op in list(first.body.block.ops):
        op.detach()
        block.insert_op_before(op, start)
    first.outputs[0].replace_all_uses_with(computed)
    first.detach()
    first.erase()


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

    The right operands lie in memory alike, and the rest of the epilogue reads vectors. A stage that the user
    pinned stays as it is.
    """

    name = "pair-contractions"

    target: str = "sm_90a"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        target = get_target(self.target)
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
    kernel: KernelOp, target: Target, schedules: list[ScheduleOp]
) -> Iterator[tuple[StageOp, StageOp]]:
    for first in [op for op in kernel.body.block.ops if isinstance(op, StageOp)]:
        if first.pinned is not None or not _is_simple(first):
            continue
        second = _reader(first)
        if second is None or not _is_simple(second) or not _meet(first, second):
            continue
        if not _fits(target, second, second.contractions[0]):
            continue
        if not _reads_vectors(first) or not _reads_vectors(second, first):
            continue
        if not any(_keeps_apart(s, first, second, target) for s in schedules):
            yield first, second
