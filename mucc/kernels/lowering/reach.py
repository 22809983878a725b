"""Which parts of tensors kernels read where they lie, a vector of 16 bytes at a time."""

from __future__ import annotations

from math import gcd

from xdsl.ir import Operation

from mucc.dialects.mu.entry import EntryOp
from mucc.dialects.mu.ops.views import IndexMapOp, RegroupOp
from mucc.dialects.mu.types import Dim, TensorType, dtype_bits
from mucc.dialects.promises import promised_multiple
from mucc.kernels.lowering.access import Access, in_memory
from mucc.target.facts import WIDEST_ACCESS


def multiple_of(type: TensorType, granule: int) -> int:
    """Return the number by which the contiguous extent must be divisible for rows of whole granules."""
    stored = 8 * granule // gcd(8 * granule, dtype_bits(type.element_type))
    return 2 * stored if type.is_sparse else stored


def _is_multiple(op: Operation, extent: Dim, number: int) -> bool:
    """Whether an extent is known to be a multiple of a number, by what the program promises."""
    if isinstance(extent, int):
        return extent % number == 0
    entry = op.parent_op()
    while entry is not None and not isinstance(entry, EntryOp):
        entry = entry.parent_op()
    if entry is None:
        return False
    promises = entry.promises.data if entry.promises else None
    return promised_multiple(promises, entry.dim_names, extent) % number == 0


def is_in_reach(access: Access, *, regrouped: bool = False) -> bool:
    """Whether a kernel that copies 16 bytes at a time can read a tensor where it lies, if it can read all of
    the tensor that it is a part of.

    A part begins at a multiple of 16 bytes of its rows, which are such multiples themselves. Parts of a
    `regrouped` tensor are for kernels that find out at each launch how they can read it.
    """
    value = access.base
    while isinstance(op := value.owner, IndexMapOp):
        type = op.operand.type
        assert isinstance(type, TensorType)
        granule = multiple_of(type, WIDEST_ACCESS)
        for move in op.moves:
            if not move.is_in_order:
                return False
            if move.axis != in_memory(op.operand).unit_axis:
                continue
            extents = [type.dims[move.axis], *(extent for _, extent in move.start)]
            if move.step != 1 or not all(_is_multiple(op, extent, granule) for extent in extents):
                return False
        value = op.operand
    return regrouped or value is access.base or not isinstance(value.owner, RegroupOp)


def is_whole(access: Access) -> bool:
    """Whether all rows of what a tensor is a part of certainly begin at multiples of 16 bytes.

    If its axes were split or merged it is no part itself, and its rows are such multiples.
    """
    value = access.base
    while isinstance(value.owner, IndexMapOp):
        value = value.owner.operand
    type, axis = value.type, in_memory(value).unit_axis
    assert isinstance(type, TensorType)
    if axis is None or not isinstance(value.owner, RegroupOp):
        return axis is not None
    is_aligned = _is_multiple(value.owner, type.dims[axis], multiple_of(type, WIDEST_ACCESS))
    while isinstance(value.owner, RegroupOp):
        value = value.owner.operand
    return is_aligned and not isinstance(value.owner, IndexMapOp)
