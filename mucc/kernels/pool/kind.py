"""The kind of pooling kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_pool
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.interface import Kind, Meaning
from mucc.kernels.pool.op import PooledOp, PoolKernelOp

if TYPE_CHECKING:
    from mucc.codegen.kernel_code import KernelCode
    from mucc.codegen.memory import Places
    from mucc.kernels.interpreter import CutlassFunctions
    from mucc.kernels.lowering.program import ProgramBuilder


class PoolKind(Kind[PoolKernelOp]):
    """Kernels that reduce windows of elements, in one pass over memory.

    Pointwise work on the operand and on the result runs in the kernel.
    """

    name = "pool"
    op = PoolKernelOp
    nodes = (PooledOp,)

    def claims(self, anchor: AnchorOp | None, target: str | None = None) -> bool:
        return is_pool(anchor) and Shaped.of(anchor.operand.type).element_type != S32

    def instead(self, op: Operation) -> str | None:
        if not is_pool(op):
            return None
        return f"pool `cast(x, f32)`: kernels compute `{op.function}` in f32, which does not hold every s32"

    def keeps_in_flight(self, anchor: AnchorOp) -> bool:
        return True

    def lower(self, builder: ProgramBuilder, stage: StageOp) -> None:
        from mucc.kernels.pool.lower import lower_pool

        lower_pool(builder, stage)

    def interpret(self, functions: CutlassFunctions, op: PoolKernelOp, args: tuple[Any, ...]) -> None:
        functions.begin(op.source_extents)

    def meanings(self) -> Mapping[type[Operation], Meaning]:
        from mucc.kernels.pool.meaning import pooled

        return {PooledOp: pooled}

    def code(self, op: PoolKernelOp, places: Places, *, canonical: bool = False) -> KernelCode:
        from mucc.kernels.pool.emission import PoolCode

        return PoolCode(op, places)
