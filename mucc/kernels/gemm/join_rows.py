"""Join rows: normalise rows that lie within one tile of a product in the product's epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.cutlass.nodes import ComputeOp, LoadOp, StoreOp, are_bits
from mucc.dialects.cutlass.ops import ProgramOp, WorkspaceOp
from mucc.dialects.mu.ops.views import RegroupOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.rewriting import Pass
from mucc.kernels.gemm.column_groups import (
    BOX,
    base_of,
    find_joints,
    is_plain,
    producer,
    suits,
)
from mucc.kernels.gemm.granules import may_be_wide
from mucc.kernels.gemm.nodes import (
    GroupReduceOp,
    GroupStoreOp,
    MatrixStore,
    RowBroadcastOp,
    ScalarBroadcastOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.lowering.joining import as_rounded, drop_unused
from mucc.kernels.normalize.op import NormalizeKernelOp, RowReduceOp, RowStoreOp
from mucc.library.extents import multiply


@dataclass
class Norm:
    """A kernel that normalises rows of what a product stores, and how its values are those of the product.

    `loads` has the store of the product that a load reads, or the node that loads the same in its epilogue.
    """

    product: GemmOp
    space: Dims
    rows: NormalizeKernelOp
    width: int
    loads: dict[LoadOp, Operation] = field(default_factory=dict[LoadOp, Operation])


@dataclass(frozen=True)
class JoinRows(Pass):
    """Normalise rows that lie within one tile in the epilogue of the product that computes them.

    ```
    cutlass.gemm "s0" ... { ... cutlass.store_d %h, %t }        cutlass.gemm "y" ... { ...
    cutlass.normalize "y" space [M, 64, 32] axes [2] {            %s = cutlass.group_reduce sum %h width 32
      %x = cutlass.load %t                                  ->    %z = cutlass.compute %h, %s { ... }
      %s = cutlass.row_reduce sum %x                              cutlass.store_d %z, %y }
      %z = cutlass.compute %x, %s { ... }
      cutlass.store %z, %y }
    ```

    A group norm, a softmax or a layer norm of short rows is then part of the product: its input is neither
    stored nor read. The rows are groups of neighbouring columns, or all columns, and none is in two tiles. A
    result of each row is stored as well. A product that the user named or whose schedule divides K, exchanges
    operands or has tiles of other widths stays as it is, and so does one of few tiles, which is faster where
    K is divided. `sizes` are typical values of open dims, each as `M=128`.
    """

    name = "join-rows"

    sizes: tuple[str, ...] = ()

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        stages: dict[GemmOp, str] = {}
        for program, own, kernel, norm in find_joints(op, NormalizeKernelOp, _norm, self.sizes):
            program.leave_unstored(stages.get(norm.product, norm.product.stage.data))
            stages[norm.product] = kernel.stage.data
            _join(norm, own)


def _norm(program: ProgramOp, kernel: NormalizeKernelOp) -> Norm | None:
    """Return a kernel of rows as work on a product; None where it has to stay a kernel."""
    nodes = list(kernel.nodes)
    if not all(isinstance(op, LoadOp | RowReduceOp | ComputeOp | StoreOp | RowStoreOp) for op in nodes):
        return None
    if any(are_bits(op.results[0]) for op in nodes if op.results):
        return None
    (*_, width), axes = kernel.extents, list(kernel.axes.get_values())
    if axes != [len(kernel.extents) - 1] or not isinstance(width, int):
        return None
    found = [producer(op.source) for op in nodes if isinstance(op, LoadOp)]
    products = {p.parent_op(): p for p in found if p is not None}
    if len(products) != 1:
        return None
    ((product, stored),) = products.items()
    if not isinstance(product, GemmOp) or not is_plain(product) or not {*product.stores} <= {*found}:
        return None
    space = Shaped.of(stored.destination.type).dims
    if not _is_divided(space, kernel.extents) or not suits(program, product, width):
        return None
    norm = Norm(product, space, kernel, width)
    if not _are_stored(program, norm):
        return None
    sources = [op.source for op in product.nodes if isinstance(op, SrcFetchOp)]
    for load in (op for op in nodes if isinstance(op, LoadOp)):
        if (made := _load(load, norm, has_source=bool(sources))) is None:
            return None
        norm.loads[load] = made
    matrices = sum(isinstance(made, SrcFetchOp) for made in norm.loads.values()) + len(sources)
    if matrices > 1 or (matrices and BOX % width):
        return None
    return norm


def _is_divided(space: Dims, extents: Dims) -> bool:
    """Whether extents are those of a matrix, or with its columns divided into groups."""
    if space == extents:
        return True
    if len(extents) < 2:
        return False
    *outer, columns = space
    *kept, groups, width = extents
    return list(outer) == kept and columns == multiply([groups, width])


def _are_stored(program: ProgramOp, norm: Norm) -> bool:
    """Whether an epilogue can store the results: one matrix at most, and an f32 for each group of a row."""
    stores = norm.rows.stores
    *outer, columns = norm.space
    groups = [*outer, columns // norm.width] if isinstance(columns, int) else []
    for op in stores:
        type = op.destination.type
        if not isinstance(type, TensorType) or not type.layout.is_row_major:
            return False
        if isinstance(op, RowStoreOp):
            if list(type.dims) != groups or type.dtype != "f32":
                return False
        elif not _is_matrix(program, TensorType.of(norm.space, type.element_type)):
            return False
    matrices = [op for op in stores if isinstance(op, StoreOp)]
    return len(matrices) <= 1 and all(op.part is None for op in matrices)


def _is_matrix(program: ProgramOp, type: TensorType) -> bool:
    """Whether TMA can store a matrix, of a dtype that epilogues which reduce groups store."""
    return may_be_wide(program, type) and type.dtype in ("bf16", "f16", "f32")


def _as_matrix(value: SSAValue, space: Dims) -> SSAValue | None:
    """Return a tensor with the extents of a product's result, of which a value may be a view."""
    return next((v for v in (value, base_of(value)) if Shaped.of(v.type).dims == space), None)


def _load(load: LoadOp, norm: Norm, *, has_source: bool) -> Operation | None:
    """Return what a load reads of the product, or the node by which an epilogue loads the same, if any."""
    source, space = load.source, norm.space
    if (stored := producer(source)) is not None and stored.parent_op() is norm.product:
        return stored
    if not isinstance(source.type, TensorType):
        return ScalarBroadcastOp(source)
    if not _is_given(source):
        return None
    if all(extent == 1 for extent in source.type.dims):
        return ScalarBroadcastOp(source) if not isinstance(source.owner, RegroupOp) else None
    vector = base_of(source)
    if not isinstance(vector.type, TensorType) or not vector.type.layout.is_row_major:
        return None
    if vector.type.dims == space[-1:] and Shaped.of(source.type).dims in (
        space[-1:],
        norm.rows.extents[-2:],
    ):
        return RowBroadcastOp(vector)
    matrix = _as_matrix(source, space)
    return SrcFetchOp(matrix) if matrix is not None and not has_source else None


def _is_given(source: SSAValue) -> bool:
    """Whether a tensor is there before the product's kernel, and so before that of its rows."""
    base = base_of(source)
    return not isinstance(base.owner, Operation) or isinstance(base.owner, WorkspaceOp)


def _join(norm: Norm, schedules: Sequence[ScheduleOp]) -> None:
    """Move the nodes of a kernel of rows into the product before it, which takes its place."""
    product, rows = norm.product, norm.rows
    values: dict[SSAValue, SSAValue] = {}
    block = product.body.block
    program = rows.parent_block()
    assert program is not None
    for load, made in norm.loads.items():
        if isinstance(made, MatrixStore):
            made.detach()
            values[load.result] = as_rounded(made, block)
            continue
        made.location = load.location
        block.add_op(made)
        values[load.result] = made.results[0]
    for op in rows.nodes:
        match op:
            case RowReduceOp():
                new: Operation = GroupReduceOp(op.kind, values[op.value], norm.width)
            case ComputeOp():
                new = op.clone({operand: values[operand] for operand in op.inputs})
            case StoreOp():
                new = StoreDOp(values[op.value], _matrix(program, norm, op.destination))
                if op.rounds:
                    new.note_rounding()
            case RowStoreOp():
                new = GroupStoreOp(values[op.value], op.destination, norm.width)
            case _:
                continue
        new.location = op.location
        block.add_op(new)
        if op.results:
            values[op.results[0]] = new.results[0]
    _replace(norm, schedules)


def _matrix(program: Block, norm: Norm, destination: SSAValue) -> SSAValue:
    """Return the place of a result with the extents of the product."""
    if (found := _as_matrix(destination, norm.space)) is not None:
        return found
    program.insert_op_before(view := RegroupOp(destination, norm.space), norm.rows)
    return view.result


def _replace(norm: Norm, schedules: Sequence[ScheduleOp]) -> None:
    """Put the product in the place of the kernel of its rows, and drop what that has read."""
    product, rows = norm.product, norm.rows
    views = [op.source for op in norm.loads] + [s.destination for s in rows.stores]
    stored = [op for op in norm.loads.values() if isinstance(op, MatrixStore)]
    held = [op.destination for op in stored]
    product.detach()
    program = rows.parent_block()
    assert program is not None
    program.insert_op_before(product, rows)
    if all(s.stage != product.stage for s in schedules):
        product.properties["stage"] = StringAttr(rows.stage.data)
    for op in stored:
        op.erase()
    rows.detach()
    rows.erase()
    drop_unused((*views, *held))
