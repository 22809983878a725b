"""Merge maps: pointwise stages over the same extents that do not need each other become one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.conversions import CastOp, RetypeOp, StoredOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import MAP, StageOp, YieldOp
from mucc.dialects.rewriting import Pass

MOST_OUTPUTS = 4
"""What one map stores: more results would leave threads few registers."""

_MOVES = (CastOp, RetypeOp, StoredOp)
"""What a stage may do that only copies: such stages have a kernel of their own, for each order in memory."""


def _stages(kernel: KernelOp) -> list[StageOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, StageOp)]


def _computes(stage: StageOp) -> bool:
    """Whether a stage is a map that computes, whose boundary the user did not pin."""
    if stage.kind.data != MAP or stage.pinned is not None:
        return False
    return any(isinstance(op, ElementwiseOp) and not isinstance(op, _MOVES) for op in stage.body.block.ops)


def _is_alike(first: StageOp, second: StageOp) -> bool:
    """Whether one kernel computes two maps as it would compute each: over the same points of a space."""
    if first.space != second.space or len(first.outputs) + len(second.outputs) > MOST_OUTPUTS:
        return False
    has_parts = [any(op.name == "mu.inside" for op in s.body.block.ops) for s in (first, second)]
    if not any(has_parts):
        return True
    from mucc.kernels.map.parts import equal_parts

    return all(has_parts) and equal_parts(first) == equal_parts(second) is not None


def _read(stage: StageOp) -> set[Operation]:
    """Return the stages that a stage reads results of."""
    owners = (operand.owner for op in stage.body.block.ops for operand in op.operands)
    return {owner for owner in owners if isinstance(owner, StageOp)}


def _place(stages: Sequence[StageOp], i: int, j: int) -> int | None:
    """Return the place, `i` or `j`, at which both stages can run; None where there is none."""
    between = stages[i:j]
    if not _read(stages[j]) & {*between}:
        return i
    readers = (stage for stage in stages[i + 1 : j + 1] if stages[i] in _read(stage))
    return j if next(readers, None) is None else None


def _merge(first: StageOp, second: StageOp, at: StageOp) -> None:
    """Make one stage of two, with the name of the second, where `at` is."""
    block = first.body.block
    stored: list[SSAValue] = []
    for stage in (first, second):
        last = stage.body.block.last_op
        assert isinstance(last, YieldOp)
        stored += last.values
        last.detach()
        last.erase()
    for op in list(second.body.block.ops):
        op.detach()
        block.add_op(op)
    block.add_op(yielded := YieldOp(stored))
    outputs = [*first.outputs, *second.outputs]
    merged = StageOp(second.stage_name.data, [output.type for output in outputs], first.detach_region(0))
    merged.location = yielded.location = second.location
    kernel = at.parent_block()
    assert kernel is not None
    kernel.insert_op_before(merged, at)
    for old, new in zip(outputs, merged.outputs, strict=True):
        old.replace_all_uses_with(new)
    for stage in (second, first):
        stage.detach()
        stage.erase()


def _merge_next(kernel: KernelOp) -> bool:
    """Merge the first two maps that can be; whether there were any."""
    stages = _stages(kernel)
    maps = [n for n, stage in enumerate(stages) if _computes(stage)]
    for k, i in enumerate(maps):
        for j in maps[k + 1 :]:
            if _is_alike(stages[i], stages[j]) and (place := _place(stages, i, j)) is not None:
                _merge(stages[i], stages[j], stages[place])
                return True
    return False


@dataclass(frozen=True)
class MergeMaps(Pass):
    """Make one launch of maps over the same extents, of which none reads what the other stores.

    ```
    %q = mu.stage "s0" map { ... }           %q, %k = mu.stage "s1" map { ... ... }
    %k = mu.stage "s1" map { ... }     ->
    ```

    The rotary embeddings of queries and keys are one kernel. It runs where the first stage does, if what the
    second one reads is there by then, or where the second one does, if nothing in between reads the first.
    """

    name = "merge-maps"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                while _merge_next(kernel):
                    pass
