"""Merge equal anchors: a product, a reduction or a scan that is written twice is computed once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import PinOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.rewriting import Pass, erase_dead
from mucc.passes.product_work import outweighs_storing
from mucc.passes.readings import Readings
from mucc.passes.value_numbers import number_values
from mucc.target import DEFAULT_TARGET, get_target
from mucc.target.facts import Facts


@dataclass(frozen=True)
class MergeAnchors(Pass):
    """Compute an anchor once where a kernel has several whose operands are equal.

    ```
    %t0 = mu.transpose %w                 %t0 = mu.transpose %w
    %y0 = mu.matmul %x, %t0               %y0 = mu.matmul %x, %t0
    %r  = mu.relu %y0                     %r  = mu.relu %y0
    %t1 = mu.transpose %w          ->     %s  = mu.sigmoid %y0
    %y1 = mu.matmul %x, %t1
    %s  = mu.sigmoid %y1
    ```

    Pointwise operations and views have value numbers, by which operands are compared, but stay apart: each
    kernel computes them again at little cost, and what has one reader joins other kernels more easily.

    Some anchors stay, unless `always` is set, for bounds: those that `_kept` lists, and products of few terms
    whose readers differ and may all be in their kernels. Merged, these would store a value and read it, which
    takes longer than to multiply again.
    """

    name = "merge-anchors"

    target: str = DEFAULT_TARGET
    always: bool = False

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp) or not _merged(kernel, {}):
                continue
            marks = {} if self.always else _marks(op, kernel, get_target(self.target).facts)
            if merged := _merged(kernel, marks):
                for result, first in merged:
                    result.replace_all_uses_with(first)
                erase_dead(kernel.body)


def _merged(kernel: KernelOp, marks: Mapping[Operation, Hashable]) -> list[tuple[SSAValue, SSAValue]]:
    """Return the results of anchors that equal the results of earlier ones, each with the first of these."""
    ops = list(kernel.body.block.ops)
    numbers = number_values(ops, marks)
    results = [result for op in ops if isinstance(op, AnchorOp) for result in op.results]
    firsts: dict[int, SSAValue] = {}
    pairs = [(result, firsts.setdefault(numbers[result], result)) for result in results]
    return [(result, first) for result, first in pairs if first is not result]


def _marks(module: ModuleOp, kernel: KernelOp, facts: Facts) -> dict[Operation, Hashable]:
    """Return what tells apart anchors that would be slower, merged with equal ones."""
    marks: dict[Operation, Hashable] = {op: op for op in _kept(kernel, _scheduled(module, kernel))}
    readings = Readings.of(kernel.body.block)
    for op in kernel.body.block.ops:
        if op in readings.fused and op not in marks and not outweighs_storing(op, facts):
            marks[op] = readings.numbers[op]
    return marks


def _scheduled(module: ModuleOp, kernel: KernelOp) -> set[str]:
    """Return the names of the stages of a kernel for which the user wrote schedules."""
    own = (op for op in module.body.block.ops if isinstance(op, ScheduleOp) and op.kernel == kernel.sym_name)
    return {schedule.stage.data for schedule in own if schedule.stage is not None}


def _kept(kernel: KernelOp, scheduled: set[str]) -> set[Operation]:
    """Return the anchors that stay in any case.

    Pointwise work or views lead from them to a stage that the user named, with a pin or as a result in
    `scheduled`. Or they are reductions that their kernel returns with other extents, at no cost.
    """
    found: set[Operation] = set()
    for op in reversed(kernel.body.block.ops):
        named: list[SSAValue] = []
        if isinstance(op, ReturnOp):
            pairs = zip(op.operands, kernel.result_names, strict=True)
            named = [value for value, name in pairs if name.data in scheduled]
        elif isinstance(op, PinOp) or (op in found and not isinstance(op, AnchorOp)):
            named = list(op.operands)
        elif isinstance(op, ReduceOp) and _is_regrouped(op):
            found.add(op)
        found.update(value.owner for value in named if isinstance(value.owner, Operation))
    return {op for op in found if isinstance(op, AnchorOp)}


def _is_regrouped(op: ReduceOp) -> bool:
    """Whether all that becomes of a reduction are results with other extents."""
    views = [use.operation for use in op.result.uses]
    if not all(isinstance(view, RegroupOp) for view in views):
        return False
    return all(isinstance(use.operation, ReturnOp) for view in views for use in view.results[0].uses)
