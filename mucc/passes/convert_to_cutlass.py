"""Convert stages to device kernels: `mu.kernel` with `mu.stage` becomes `cutlass.program`.

The kind of kernel that a stage becomes lowers it. Pointwise work becomes ops on scalars between load and
store nodes; `fuse-epilogue` then collects them into bodies. A tensor that a kernel cannot read where it lies
is first copied by a map kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.rewriting import Pass, locate
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.registry import kind_of_stage
from mucc.target import DEFAULT_TARGET


def _convert(kernel: KernelOp, target: str) -> ProgramOp:
    builder = ProgramBuilder(kernel, target)
    kinds = {op: kind_of_stage(op, target) for op in kernel.body.block.ops if isinstance(op, StageOp)}
    for kind in dict.fromkeys(kinds.values()):
        builder.orders.update(kind.result_orders(kernel, target))
    for op, kind in kinds.items():
        before = builder.block.last_op
        kind.lower(builder, op)
        new = builder.block.first_op if before is None else before.next_op
        while new is not None:
            locate(new, op)
            new = new.next_op
    return builder.program


@dataclass(frozen=True)
class ConvertToCutlass(Pass):
    """Lower staged kernels to programs of device kernels for one target."""

    name = "convert-to-cutlass"

    target: str = DEFAULT_TARGET

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        block = op.body.block
        for kernel in list(block.ops):
            if isinstance(kernel, KernelOp):
                block.insert_op_before(_convert(kernel, self.target), kernel)
                kernel.detach()
                kernel.erase()
