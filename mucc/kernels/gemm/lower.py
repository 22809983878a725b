"""Lower contractions to their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.nodes import InsideOp
from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.by_name import is_slice
from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp, MatmulOp
from mucc.dialects.mu.ops.elementwise import CmpOp, ConstantOp, ElementwiseOp, SelectOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import DTYPES, Dim, Dims, Shaped, TensorType, dtype_bytes
from mucc.dialects.walk import postorder
from mucc.kernels.gemm.axes import lhs_access, matmul_dims, rhs_access
from mucc.kernels.gemm.bodies import EpilogueBody
from mucc.kernels.gemm.lower_operands import block_scale, group_scale, operand
from mucc.kernels.gemm.nodes import (
    AuxStoreOp,
    ColReductionOp,
    RowReductionOp,
    ScalarReductionOp,
    ScatterDOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.shape import GemmShapeAttr
from mucc.kernels.lowering.access import (
    identity,
    is_inside,
    part_in_flight,
    pointwise_roots,
    root_axes,
)
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.map.copies import clear, contiguous_vector
from mucc.kernels.map.lower import lower_map, row_numbers


def lower_contraction(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a product, a grouped one included, to the program."""
    matmul = stage.anchor
    if isinstance(matmul, GroupedMatmulOp):
        _grouped(builder, stage, matmul)
        return
    assert isinstance(matmul, MatmulOp)
    problem = matmul_dims(stage)
    # Beside a sparse operand of 32 bits, or one that is converted, no other passes through registers.
    is_sparse = rules.is_sparse(matmul.lhs.type) or rules.is_sparse(matmul.rhs.type)
    along = matmul.mixed is not None or (
        is_sparse and dtype_bytes(Shaped.of(matmul.lhs.type).element_type) == 4
    )
    left = lhs_access(stage, matmul)
    picks = _picks(builder, matmul) and len(stage.contractions) == 1 and not (along or is_sparse)
    dims = Shaped.of(matmul.lhs.type).dims
    a = operand(builder, stage, left, problem, dims, k_major=along, picks=picks)
    b, *second = (
        operand(builder, stage, right, problem, Shaped.of(op.rhs.type).dims, is_right=True, k_major=along)
        for op in stage.contractions
        for right in [rhs_access(stage, op)]
    )
    body = EpilogueBody(builder, stage, problem)
    _store(builder, stage, body)
    gemm = GemmOp(
        stage.stage_name.data,
        matmul.compute,
        a,
        b,
        GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch),
        Region(body.block),
        b2=next(iter(second), None),
        scales=[(group_scale if matmul.mixed else block_scale)(builder, stage, v) for v in matmul.scales],
    )
    gemm.acc = matmul.acc
    gemm.location = matmul.location
    builder.block.add_op(gemm)


def _store(builder: ProgramBuilder, stage: StageOp, body: EpilogueBody) -> None:
    """Emit the epilogue that computes and stores a stage's results: matrices, column ranges, reductions."""
    places = [builder.destinations(r) for r in stage.outputs]
    values: list[tuple[SSAValue, SSAValue, bool]] = []
    ranges: list[ColumnRange] = []
    for stored, targets in zip(stage.stored, places, strict=True):
        owner = stored.owner
        for target in targets:
            if isinstance(owner, ReduceOp) and is_inside(stored, stage):
                _epilogue_reduction(body, owner, builder.regrouped(target, stored), stage.space)
                continue
            value = body.scalar(stored, root_axes(stored, stage))
            given = body.without_cast(value, target)
            values.append((given, builder.regrouped(target, stored), body.leaves_cast(value, target)))
            if (low := first_column(stored, stage)) is not None:
                ranges.append(ColumnRange(values[-1][0], low, Shaped.of(stored.type).dims[-1]))
    chosen = _chosen(body, ranges, len(stage.space) - 1)
    for i, (value, target, rounds) in enumerate(values):
        kind = AuxStoreOp if i else StoreDOp
        store = kind(value, target) if chosen is None else kind(chosen, target, ranges[i].low)
        if rounds:
            store.note_rounding()
        body.add(store)


class ColumnRange(NamedTuple):
    """A range of the columns of a stage: what is stored of them, the first one, and how many there are."""

    value: SSAValue
    low: Dim
    width: Dim


def first_column(stored: SSAValue, stage: StageOp) -> Dim | None:
    """Return the first of the columns of which a value that a stage stores is computed; None if of all."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        owner = value.owner if is_inside(value, stage) else None
        return owner.operands if isinstance(owner, ElementwiseOp) else ()

    parts = (part_in_flight(value, stage) for value in postorder(stored, operands))
    return next((part.range[0] for part in parts if is_slice(part)), None)


def _chosen(body: Body, ranges: Sequence[ColumnRange], axis: int) -> SSAValue | None:
    """Return one value for all columns: that of each range there; None where there are no ranges."""
    if not ranges:
        return None
    result = ranges[-1].value
    for value, low, width in reversed(ranges[:-1]):
        if value is result:
            continue
        body.block.add_op(inside := InsideOp(axis, low, width))
        body.block.add_op(zero := ConstantOp(0.0))
        body.block.add_op(is_here := CmpOp("gt", inside.result, zero.result))
        body.block.add_op(choice := SelectOp(is_here, value, result))
        result = choice.result
    return result


def _grouped(builder: ProgramBuilder, stage: StageOp, product: GroupedMatmulOp) -> None:
    """Lower a grouped contraction.

    Its kernel stores one matrix. Where a stage stores several it writes the bare product, in f32 or s32,
    and a map does the rest.
    """
    name = stage.stage_name.data
    lhs, rhs = Shaped.of(product.lhs.type).dims, Shaped.of(product.rhs.type).dims
    wide = dtype_bytes(Shaped.of(product.lhs.type).element_type) == 4
    problem = matmul_dims(stage)
    picks = _picks(builder, product)
    # Groups begin at any row. Where rows are the contiguous axis, boxes of TMA cannot: tiles of more than
    # 64 rows are several of them, and end in an illegal instruction on an H200.
    a = operand(builder, stage, lhs_access(stage, product), problem, lhs, k_major=True, picks=picks)
    right = rhs_access(stage, product)
    b = operand(builder, stage, right, problem, rhs, is_right=True, groups=True, k_major=wide)
    offsets = contiguous_vector(builder, stage, product.offsets)
    body = EpilogueBody(builder, stage, problem)
    roots, rows = list(pointwise_roots(stage)), list(row_numbers(stage))
    wanted = [builder.outputs[i] for i, r in enumerate(builder.returned) if r in stage.outputs]
    # Integers leave the kernel as they are added up, or as f32.
    integers = Shaped.of(product.result.type).element_type == DTYPES["s32"]
    rounds = Shaped.of(stage.outputs[0].type).element_type == DTYPES["s32"] and roots[0] is not product.result
    single = len(roots) == 1 and len(wanted) <= 1 and not rounds
    if single:
        (target,) = builder.destinations(stage.outputs[0])
        value = body.without_cast(body.scalar(roots[0], root_axes(roots[0], stage)), target)
        if rows[0] is not None:
            clear(builder, stage, target)
            body.add(ScatterDOp(value, target, contiguous_vector(builder, stage, rows[0])))
        else:
            body.add(StoreDOp(value, target))
    else:
        bare = TensorType.of(stage.space, DTYPES["s32"] if integers else f32)
        builder.block.add_op(workspace := c.WorkspaceOp(bare))
        target = workspace.result
        value = body.scalar(product.result, identity(stage.space))
        body.add(StoreDOp(value, target))
    shape = GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch)
    gemm = GemmOp(name, product.compute, a, b, shape, Region(body.block), offsets=offsets)
    gemm.location = product.location
    builder.block.add_op(gemm)
    if not single:
        builder.memory[product.result] = target
        lower_map(builder, stage, Body(builder, stage), builder.helper(stage, "rest"))


def _picks(builder: ProgramBuilder, product: ContractionOp) -> bool:
    """Whether the target has kernels that pick rows of a product's left operand by number."""
    return gemm_target(builder.target).picks(product.compute.data.value)


def _epilogue_reduction(body: EpilogueBody, op: ReduceOp, target: SSAValue, space: Dims) -> None:
    """Append the reduction of a stage's space to one number for each row, for each column, or for both."""
    axes, column = set(op.axes.get_values()), len(space) - 1
    value = body.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
    rows = set(range(len(body.problem.batch), column))
    # Axes of extent 1 are reduced or not, as the others are: batch axes that became rows are kept beside one.
    long = {axis for axis in rows if space[axis] != 1}
    if not (long <= axes if long else rows & axes):
        node = ColReductionOp
    elif column in axes:
        node = ScalarReductionOp
    else:
        node = RowReductionOp
    body.add(node(op.kind, value, target))
