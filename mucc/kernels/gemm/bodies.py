"""The bodies of contraction kernels: epilogues on the accumulators."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp
from mucc.dialects.mu.ops.elementwise import AddOp, MulOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Dims
from mucc.kernels.gemm.axes import MatmulDims, Pattern, classify
from mucc.kernels.gemm.nodes import (
    TAKES_INTEGERS,
    AccFetchOp,
    AuxLoadOp,
    ColBroadcastOp,
    GroupRowOp,
    GroupScalarOp,
    RowBroadcastOp,
    ScalarBroadcastOp,
    SrcFetchOp,
)
from mucc.kernels.lowering.access import Access, Axes
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.map.copies import contiguous_rows, copy

LOADS = {
    Pattern.ROW: RowBroadcastOp,
    Pattern.COL: ColBroadcastOp,
    Pattern.SCALAR: ScalarBroadcastOp,
}


class EpilogueBody(Body):
    """The nodes of an epilogue: loads by the pattern of their access, work on floats, stores."""

    takes_integers = TAKES_INTEGERS

    def __init__(self, program: ProgramBuilder, stage: StageOp, problem: MatmulDims):
        super().__init__(program, stage)
        self.problem = problem
        self.is_grouped = isinstance(stage.anchor, GroupedMatmulOp)

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, ContractionOp), f"{op.name} in an epilogue"
        self.block.add_op(node := AccFetchOp(second=op is not self.stage.anchor))
        node.location = op.location
        return self.of_groups(op, node.result) if isinstance(op, GroupedMatmulOp) else node.result

    def of_groups(self, op: GroupedMatmulOp, value: SSAValue) -> SSAValue:
        """Return the product with the scale and the bias of the element's group."""
        found: list[Operation] = []
        if op.scale is not None:
            found.append(load := GroupScalarOp(contiguous_rows(self.program, self.stage, op.scale)))
            found.append(scaled := MulOp(value, load.result))
            value = scaled.result
        if op.bias is not None:
            found.append(load := GroupRowOp(contiguous_rows(self.program, self.stage, op.bias)))
            found.append(added := AddOp(value, load.result))
            value = added.result
        for new in found:
            self.add(new, op)
        return value

    def _load(self, access: Access, rank: int) -> SSAValue:
        space, folded = self.stage.space, self.problem.folded
        pattern = classify(access, space, folded)
        if pattern is Pattern.MATRIX and self.is_grouped and access.unit_axis != rank - 1:
            pattern = None
        if pattern is None:
            access = copy(self.program, self.stage, access, rank, self._seen(access, rank))
            pattern = classify(access, space, folded)
            assert pattern is not None
        if pattern is Pattern.MATRIX:
            has_source = any(isinstance(op, SrcFetchOp) for op in self.block.ops)
            kind = AuxLoadOp if has_source else SrcFetchOp
        else:
            kind = LOADS[pattern]
        self.block.add_op(node := kind(build_view(access, rank, self.program.block)))
        return node.result

    def _seen(self, access: Access, rank: int) -> Dims:
        """Return the space with extent 1 for axes along which an access does not vary."""
        first, space = rank - 2 - self.problem.folded, self.stage.space
        groups = (range(first), range(first, rank - 1), range(rank - 1, rank))
        return tuple(space[i] if access.walked & set(group) else 1 for group in groups for i in group)
