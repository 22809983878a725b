"""Convert stages to device kernels: `mu.kernel` with `mu.stage` becomes `cutlass.program`.

Pointwise work becomes ops on scalars between load and store nodes; `fuse-epilogue` then collects
them into bodies. A tensor that a kernel cannot read where it lies is first copied by a map kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Region, SSAValue

from mucc.dialects.cutlass import nodes
from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageKind, StageOp
from mucc.dialects.mu.types import DTYPES, Shaped, TensorType, dtype_bytes
from mucc.dialects.rewriting import Pass, locate
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.lowering.access import (
    identity,
    is_inside,
    lhs_access,
    pointwise_roots,
    problem_of,
    rhs_access,
    root_axes,
)
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder


class _Kernel(ProgramBuilder):
    """Builds the program of one kernel."""

    def convert(self) -> c.ProgramOp:
        for op in self.kernel.body.block.ops:
            if isinstance(op, StageOp):
                before = self.block.last_op
                self.stage(op)
                new = self.block.first_op if before is None else before.next_op
                while new is not None:
                    locate(new, op)
                    new = new.next_op
        return self.program

    def stage(self, stage: StageOp) -> None:
        match stage.kind.data:
            case StageKind.CONTRACTION:
                self.contraction(stage)
            case StageKind.REDUCTION:
                self.reduction(stage)
            case StageKind.MAP | StageKind.SCATTER:
                self.map(stage, Body(self, stage, None), stage.stage_name.data)

    def map(self, stage: StageOp, body: Body, name: str) -> None:
        """A pointwise kernel that stores what the stage yields."""
        places = [self.destinations(r) for r in stage.outputs]
        for root, rows, targets in zip(pointwise_roots(stage), _row_numbers(stage), places, strict=True):
            value = body.scalar(root, root_axes(root, stage))
            for target in targets:
                given = body.without_cast(value, target)
                if rows is None:
                    body.add(nodes.StoreOp(given, target))
                else:
                    self.clear(stage, target)
                    body.add(nodes.ScatterStoreOp(given, target, self.outside(rows)))
        self.block.add_op(c.MapOp(name, stage.space, Region(body.block)))

    def clear(self, stage: StageOp, target: SSAValue) -> None:
        """Zeros for the rows that a scatter leaves out."""
        assert isinstance(target.type, TensorType)
        body = Block()
        body.add_op(zero := ConstantOp(0.0))
        body.add_op(nodes.StoreOp(zero.result, target))
        self.block.add_op(c.MapOp(self.helper(stage, "zero"), target.type.dims, Region(body)))

    def reduction(self, stage: StageOp) -> None:
        anchor = stage.anchor
        assert isinstance(anchor, ReduceOp)
        body = Body(self, stage, None)
        for result in stage.outputs:
            for target in self.destinations(result):
                value = body.scalar(anchor.operand, identity(stage.space))
                value = body.bits(value) if value.type == S32 else value
                body.add(nodes.ReduceStoreOp(anchor.kind, value, target))
        axes = anchor.axes.get_values()
        self.block.add_op(c.ReduceOp(stage.stage_name.data, stage.space, axes, Region(body.block)))

    def grouped(self, stage: StageOp, product: GroupedMatmulOp) -> None:
        """A grouped contraction.

        Its kernel stores one matrix. Where a stage stores several it writes the bare product, in f32 or s32,
        and a map does the rest.
        """
        name = stage.stage_name.data
        lhs, rhs = Shaped.of(product.lhs.type).dims, Shaped.of(product.rhs.type).dims
        wide = dtype_bytes(Shaped.of(product.lhs.type).element_type) == 4
        problem = problem_of(stage)
        picks = self.picks(product)
        # Groups begin at any row. Where rows are the contiguous axis, boxes of TMA cannot: tiles of more than
        # 64 rows are several of them, and end in an illegal instruction on an H200.
        a = self.operand(stage, lhs_access(stage, product), problem, lhs, k_major=True, picks=picks)
        right = rhs_access(stage, product)
        b = self.operand(stage, right, problem, rhs, is_right=True, groups=True, k_major=wide)
        offsets = self.vector(stage, product.offsets)
        body = Body(self, stage, problem)
        roots, rows = list(pointwise_roots(stage)), list(_row_numbers(stage))
        wanted = [self.outputs[i] for i, r in enumerate(self.returned) if r in stage.outputs]
        # Integers leave the kernel as they are added up, or as f32.
        integers = Shaped.of(product.result.type).element_type == DTYPES["s32"]
        rounds = (
            Shaped.of(stage.outputs[0].type).element_type == DTYPES["s32"] and roots[0] is not product.result
        )
        single = len(roots) == 1 and len(wanted) <= 1 and not rounds
        if single:
            (target,) = self.destinations(stage.outputs[0])
            value = body.without_cast(body.scalar(roots[0], root_axes(roots[0], stage)), target)
            if rows[0] is not None:
                self.clear(stage, target)
                body.add(nodes.ScatterDOp(value, target, self.vector(stage, rows[0])))
            else:
                body.add(nodes.StoreDOp(value, target))
        else:
            bare = TensorType.of(stage.space, DTYPES["s32"] if integers else f32)
            self.block.add_op(workspace := c.WorkspaceOp(bare))
            target = workspace.result
            value = body.scalar(product.result, identity(stage.space))
            body.add(nodes.StoreDOp(value, target))
        shape = c.GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch)
        gemm = c.GemmOp(name, product.compute, a, b, shape, Region(body.block), offsets=offsets)
        gemm.location = product.location
        self.block.add_op(gemm)
        if not single:
            self.memory[product.result] = target
            self.map(stage, Body(self, stage, None), self.helper(stage, "rest"))

    def contraction(self, stage: StageOp) -> None:
        matmul = stage.anchor
        if isinstance(matmul, GroupedMatmulOp):
            self.grouped(stage, matmul)
            return
        assert isinstance(matmul, MatmulOp)
        rank = len(stage.space)
        problem = problem_of(stage)
        # Beside a sparse operand of 32 bits, or one that is converted, no other passes through registers.
        is_sparse = rules.is_sparse(matmul.lhs.type) or rules.is_sparse(matmul.rhs.type)
        along = matmul.mixed is not None or (
            is_sparse and dtype_bytes(Shaped.of(matmul.lhs.type).element_type) == 4
        )
        left = lhs_access(stage, matmul)
        picks = self.picks(matmul) and len(stage.contractions) == 1 and not (along or is_sparse)
        dims = Shaped.of(matmul.lhs.type).dims
        a = self.operand(stage, left, problem, dims, k_major=along, picks=picks)
        b, *second = (
            self.operand(stage, right, problem, Shaped.of(op.rhs.type).dims, is_right=True, k_major=along)
            for op in stage.contractions
            for right in [rhs_access(stage, op)]
        )
        places = [self.destinations(r) for r in stage.outputs]
        body = Body(self, stage, problem)
        values: list[tuple[SSAValue, SSAValue]] = []
        last = stage.body.block.last_op
        assert last is not None
        for stored, targets in zip(last.operands, places, strict=True):
            owner = stored.owner
            for target in targets:
                if isinstance(owner, ReduceOp) and is_inside(stored, stage):
                    self.epilogue_reduction(body, owner, target, rank)
                else:
                    value = body.scalar(stored, root_axes(stored, stage))
                    values.append((body.without_cast(value, target), target))
        for i, (value, target) in enumerate(values):
            body.add((nodes.AuxStoreOp if i else nodes.StoreDOp)(value, target))
        gemm = c.GemmOp(
            stage.stage_name.data,
            matmul.compute,
            a,
            b,
            c.GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch),
            Region(body.block),
            b2=next(iter(second), None),
            scales=[(self.group_scale if matmul.mixed else self.scale)(stage, v) for v in matmul.scales],
        )
        gemm.acc = matmul.acc
        gemm.location = matmul.location
        self.block.add_op(gemm)

    def picks(self, product: ContractionOp) -> bool:
        """Whether the target has kernels that pick rows of a product's left operand by number."""
        return gemm_target(self.target).picks(product.compute.data.value)

    def epilogue_reduction(self, body: Body, op: ReduceOp, target: SSAValue, rank: int) -> None:
        axes = set(op.axes.get_values())
        value = body.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
        if axes == {rank - 1}:
            node = nodes.ColReductionOp
        elif rank - 1 in axes:
            node = nodes.ScalarReductionOp
        else:
            node = nodes.RowReductionOp
        body.add(node(op.kind, value, target))


def _row_numbers(stage: StageOp) -> Iterator[SSAValue | None]:
    """For each value that a stage stores, the tensor that says where its rows go; None where they stay."""
    last = stage.body.block.last_op
    assert last is not None
    for value in last.operands:
        scatter = value.owner if is_inside(value, stage) else None
        yield scatter.rows if isinstance(scatter, ScatterOp) else None


@dataclass(frozen=True)
class ConvertToCutlass(Pass):
    """Lower staged kernels to programs of device kernels for one target."""

    name = "convert-to-cutlass"

    target: str = "sm_90a"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        block = op.body.block
        for kernel in list(block.ops):
            if isinstance(kernel, KernelOp):
                program = _Kernel(kernel, self.target).convert()
                block.insert_op_before(program, kernel)
                kernel.detach()
                kernel.erase()
