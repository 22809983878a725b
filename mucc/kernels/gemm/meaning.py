"""Interpret contraction kernels and the nodes of their epilogues in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.cutlass.nodes import LoadNode
from mucc.dialects.mu.interpreter import by_group, grouped_product
from mucc.dialects.mu.types import Shaped
from mucc.kernels.gemm.nodes import (
    AccFetchOp,
    AuxLoadOp,
    AuxStoreOp,
    ColBroadcastOp,
    ColReductionOp,
    GroupReduceOp,
    GroupRowOp,
    GroupScalarOp,
    GroupStoreOp,
    MatrixStore,
    RowBroadcastOp,
    RowReductionOp,
    ScalarBroadcastOp,
    ScalarReductionOp,
    ScatterDOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.interface import Meaning
from mucc.kernels.interpreter import CutlassFunctions


def interpret(functions: CutlassFunctions, op: GemmOp, args: tuple[Any, ...]) -> None:
    """Form the products of a kernel: its accumulators."""
    values = [functions.read(v) for v in args[: len(args) - len(op.prepared)]]
    scales = values[len(values) - len(op.scales) :]
    a, b, *more = values[: len(values) - len(scales)]
    if op.prepared:
        a, b, *more[: len(op.prepared) - 2] = (
            functions.read(v) for v in args[len(args) - len(op.prepared) :]
        )
    if op.parts > 1:
        a, b = (v.reshape(*v.shape[:-2], -1) for v in (a, b))
        b = functions.arrays.xp.swapaxes(b, -1, -2)
    m, n, _, batch = op.shape.extents
    # Where no operand has batch axes, every batch has the same product.
    if op.is_grouped:
        # Views of operands leave leading axes of extent 1 out.
        rows, weights = a.reshape(-1, a.shape[-1]), b.reshape(-1, *b.shape[-2:])
        products = [grouped_product(functions.arrays, rows, weights, more[0])]
        functions.ends = more[0]
    elif (side := op.narrow) is not None:
        wide = op.b.type if side == 0 else op.a.type
        element = Shaped.of(wide).element_type
        products = [functions.mixed_product(a, b, scales, op.group, side, element)]
    else:
        products = [functions.product(a, right, scales, op.blocks) for right in (b, *more)]
    functions.begin((*batch, *m, *n), *products)


Values = tuple[Any, ...]


def _accumulator(functions: CutlassFunctions, op: AccFetchOp, args: Values) -> Values:
    return (functions.launch.accumulators[op.number],)


def _load(functions: CutlassFunctions, op: LoadNode, args: Values) -> Values:
    return (functions.read(args[0]),)


def _row_of_group(functions: CutlassFunctions, op: GroupRowOp, args: Values) -> Values:
    return (by_group(functions.read(args[0]), functions.ends),)


def _number_of_group(functions: CutlassFunctions, op: GroupScalarOp, args: Values) -> Values:
    return (by_group(functions.read(args[0]), functions.ends)[:, None],)


def _store(functions: CutlassFunctions, op: MatrixStore, args: Values) -> Values:
    value = functions.over_space(args[0])
    if op.columns is not None:
        low, count = functions.extents(op.columns)
        value = value[..., low : low + count]
    functions.write(args[1], op.destination.type, value)
    return ()


def _reduce_groups(functions: CutlassFunctions, op: GroupReduceOp, args: Values) -> Values:
    full, width = functions.over_space(args[0]), op.width.value.data
    groups = (*full.shape[:-1], full.shape[-1] // width, width)
    arrays = functions.arrays
    reduced = arrays.reduce(op.kind.data.value, full.reshape(groups), (len(groups) - 1,))
    spread = reduced.reshape((*groups[:-1], 1)) + arrays.full(groups, 0.0)
    return (spread.reshape(full.shape),)


def _store_groups(functions: CutlassFunctions, op: GroupStoreOp, args: Values) -> Values:
    full, width = functions.over_space(args[0]), op.width.value.data
    functions.write(args[1], op.destination.type, full[..., ::width])
    return ()


def _reduce_rows(functions: CutlassFunctions, op: RowReductionOp, args: Values) -> Values:
    rank = len(functions.launch.space)
    kept = len(Shaped.of(op.destination.type).dims)
    return functions.reduced(op, args, (rank - 2,) if kept == rank - 1 else range(rank - 1))


def _reduce_columns(functions: CutlassFunctions, op: ColReductionOp, args: Values) -> Values:
    return functions.reduced(op, args, (len(functions.launch.space) - 1,))


def _reduce_all(functions: CutlassFunctions, op: ScalarReductionOp, args: Values) -> Values:
    rank = len(functions.launch.space)
    kept = len(Shaped.of(op.destination.type).dims)
    return functions.reduced(op, args, range(rank) if not kept else (rank - 2, rank - 1))


MEANINGS: Mapping[type[Operation], Meaning] = {
    AccFetchOp: _accumulator,
    **dict.fromkeys((SrcFetchOp, AuxLoadOp, RowBroadcastOp, ColBroadcastOp, ScalarBroadcastOp), _load),
    GroupRowOp: _row_of_group,
    GroupScalarOp: _number_of_group,
    **dict.fromkeys((StoreDOp, AuxStoreOp), _store),
    ScatterDOp: CutlassFunctions.scatter_store,
    GroupReduceOp: _reduce_groups,
    GroupStoreOp: _store_groups,
    RowReductionOp: _reduce_rows,
    ColReductionOp: _reduce_columns,
    ScalarReductionOp: _reduce_all,
}
