"""Join parts: begin reductions of a product's rows in its epilogue, for reductions without an atomic."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Region

from mucc.dialects.cutlass.nodes import LoadOp, are_bits
from mucc.dialects.cutlass.ops import ProgramOp, WorkspaceOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.rewriting import Pass
from mucc.kernels.gemm.column_groups import (
    BOX,
    TILES,
    find_joints,
    is_plain,
    producer,
    suits,
)
from mucc.kernels.gemm.nodes import AuxLoadOp, GroupReduceOp, GroupStoreOp, MatrixStore, SrcFetchOp
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.lowering.joining import as_rounded, drop_unused
from mucc.kernels.reduce.op import ReducedOp, ReduceKernelOp

WIDTHS = (128, 64, 32)
"""Columns of a part, the widest first: the product stores one number for each."""


class Parts(NamedTuple):
    """A kernel that reduces the rows of what a product stores, which parts of `width` columns can begin."""

    product: GemmOp
    stored: MatrixStore
    load: LoadOp
    rows: ReduceKernelOp
    width: int

    @property
    def space(self) -> Dims:
        """The extents of the product's result."""
        return self.rows.extents


@dataclass(frozen=True)
class JoinParts(Pass):
    """Reduce parts of a product's rows in its epilogue where a kernel of its own reduces the rows.

    ```
    cutlass.gemm "s0" ... {                         cutlass.gemm "s0" ... { ...
      ... cutlass.store_d %h, %t }                    %p = cutlass.group_reduce min %h width 128
    cutlass.reduce "y" space [M, N] axes [1] {        cutlass.group_store %p, %u width 128 }
      %x = cutlass.load %t                    ->    cutlass.reduce "y" space [M, N / 128] axes [1] {
      %m = cutlass.reduced min %x                     %x = cutlass.load %u
      ... }                                           %m = cutlass.reduced min %x ... }
    ```

    Minima and products have no atomics in CUTLASS's epilogue, and what a norm in the epilogue computes is
    reduced in no other way. The minimum of minima of parts is that of all elements, and so for the other
    reductions. The result of the product is then neither stored nor read.
    """

    name = "join-parts"

    sizes: tuple[str, ...] = ()

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        for program, _, _, parts in find_joints(op, ReduceKernelOp, _parts, self.sizes):
            program.leave_unstored(parts.product.stage.data)
            _join(program, parts)


def _parts(program: ProgramOp, kernel: ReduceKernelOp) -> Parts | None:
    """Return a kernel as the end of reductions that a product begins; None where it has to read all."""
    if list(kernel.axes.get_values()) != [len(kernel.extents) - 1]:
        return None
    read = {op.value for op in kernel.reductions}
    if len(read) != 1 or not all(isinstance(op, ReducedOp) for op in kernel.reductions):
        return None
    load = read.pop().owner
    if not isinstance(load, LoadOp) or are_bits(load.result):
        return None
    if any(use.operation not in kernel.reductions for use in load.result.uses):
        return None
    stored = producer(load.source)
    product = stored.parent_op() if stored is not None else None
    if stored is None or not isinstance(product, GemmOp) or not is_plain(product):
        return None
    if product.stores != (stored,) or Shaped.of(stored.destination.type).dims != kernel.extents:
        return None
    columns, group = kernel.extents[-1], product.group_columns or 1
    reads = any(isinstance(op, SrcFetchOp | AuxLoadOp) for op in product.nodes)
    for width in WIDTHS:
        both = lcm(width, group)
        fits = any(tile % both == 0 for tile in TILES)
        if not isinstance(columns, int) or columns % width or columns == width or not fits:
            continue
        if (reads and BOX % both) or not suits(program, product, width):
            continue
        return Parts(product, stored, load, kernel, width)
    return None


def _join(program: ProgramOp, parts: Parts) -> None:
    product, rows, width = parts.product, parts.rows, parts.width
    *outer, columns = rows.extents
    assert isinstance(columns, int)
    extents = (*outer, columns // width)
    block, held, source = product.body.block, parts.stored.destination, parts.load.source
    value = as_rounded(parts.stored, block)
    parts.stored.detach()
    parts.stored.erase()
    for reduced in rows.reductions:
        assert isinstance(reduced, ReducedOp)
        program.body.block.insert_op_before(place := WorkspaceOp(TensorType.of(extents, f32)), product)
        block.add_op(part := GroupReduceOp(reduced.kind, value, width))
        block.add_op(store := GroupStoreOp(part.result, place.result, width))
        part.location = store.location = reduced.location
        rows.body.block.insert_op_before(load := LoadOp(place.result), reduced)
        load.location = parts.load.location
        reduced.operands = [load.result]
    parts.load.detach()
    parts.load.erase()
    body = Region(rows.body.detach_block(0))
    made = ReduceKernelOp(rows.stage.data, extents, list(rows.axes.get_values()), body)
    made.location = rows.location
    made.attributes |= rows.attributes
    program.body.block.insert_op_before(made, rows)
    rows.detach()
    rows.erase()
    drop_unused((source, held))
