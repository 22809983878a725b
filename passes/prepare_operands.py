"""Prepare operands that a contraction's kernel cannot read where they lie, now that its schedule is chosen.

f32 operands that tensor cores multiply in parts of tf32 become those parts: map kernels before the
contraction write them, and the contraction says what it reads.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.cutlass import nodes as n
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.ops.views import TransposeOp
from mucc.dialects.mu.types import LayoutAttr, TensorType, dtype_bytes
from mucc.passes.gemm_config import config_of
from mucc.passes.granules import program_of
from mucc.passes.legalize_tile import gemms
from mucc.passes.support import Pass, locate
from mucc.target import get_target
from mucc.target.config import WIDEST_ACCESS


class _Preparation:
    """Inserts before one contraction what it needs."""

    def __init__(self, gemm: c.GemmOp):
        self.gemm = gemm
        self.program = program_of(gemm)

    def add(self, op: Operation) -> None:
        self.program.body.block.insert_op_before(op, self.gemm)
        locate(op, self.gemm)

    def split(self, value: SSAValue, parts: tuple[n.Part, ...], what: str) -> SSAValue:
        """The parts of the numbers of `value`, [.., rows, K], as [.., rows, parts, K]."""
        type = value.type
        assert isinstance(type, TensorType)
        dims = (*type.dims[:-1], len(parts), type.dims[-1])
        layout = LayoutAttr.padded(WIDEST_ACCESS // dtype_bytes(type.element_type))
        self.add(workspace := c.WorkspaceOp(TensorType.of(dims, type.element_type, layout)))
        body = Block()
        body.add_op(load := n.LoadOp(value))
        body.add_op(n.StorePartsOp(load.result, workspace.result, parts))
        self.add(c.MapOp(f"{self.gemm.stage.data}.{what}", type.dims, Region(body)))
        return workspace.result

    def split_operands(self) -> None:
        """`A @ B` -> `[low, high, high] of A @ [high, low, high] of B`, along a K three times as long."""
        self.add(turned := TransposeOp(self.gemm.b))
        operands = ((self.gemm.a, "split_a"), (turned.result, "split_b"))
        a, b = (
            self.split(value, parts, what) for (value, what), parts in zip(operands, n.PARTS, strict=True)
        )
        self.replace(self.gemm.reading(a, b))

    def replace(self, new: c.GemmOp) -> None:
        """Puts another op in the place of the contraction."""
        self.add(new)
        self.gemm.detach()
        self.gemm.erase()


class PrepareOperands(Pass):
    """Copy operands, or split them, for kernels that read what the program has in another form."""

    name = "prepare-operands"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program, gemm in list(gemms(op)):
            target = get_target(program.target.data)
            if target.splits(config_of(gemm)):
                _Preparation(gemm).split_operands()
