"""Lower stages to normalize kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp, StoreOp, are_bits
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import IndexMapOp
from mucc.dialects.mu.types import Dims, Shaped, is_packed
from mucc.kernels.lowering.access import Access, Axes, identity
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder, build_view
from mucc.kernels.map.copies import copy
from mucc.kernels.normalize.op import NormalizeKernelOp, RowReduceOp, RowStoreOp
from mucc.kernels.normalize.placing import chain_space, places

ACROSS = 1 << 20
"""Elements below which a tensor is read where it lies, though across the threads: a copy takes a launch."""


class NormalizeBody(Body):
    """The nodes of a normalize kernel; integers are reduced as their bits."""

    def __init__(self, program: ProgramBuilder, stage: StageOp, space: Dims):
        super().__init__(program, stage, len(space))
        self.space = space
        self.copies: dict[Access, Access] = {}

    def load(self, access: Access) -> SSAValue:
        """Load an element. Of a tensor that lies across the threads a copy is read, which tiles transpose."""
        if access not in self.copies:
            is_copied = self._lies_across(access)
            self.copies[access] = (
                copy(self.program, self.stage, access, self.rank, self.space) if is_copied else access
            )
        return super().load(self.copies[access])

    def _lies_across(self, access: Access) -> bool:
        """Whether a large tensor that fills the space is not contiguous along the axis of the threads.

        Those lie along the innermost axis of more than one element.
        """
        long = [axis for axis, extent in enumerate(self.space) if extent != 1]
        known = [extent for extent in self.space if isinstance(extent, int)]
        if len(known) == len(self.space) and math.prod(known) < ACROSS:
            return False
        if (type := access.type) is None or is_packed(type.element_type) or type.element_type == i1:
            return False
        if access.is_gathered or _is_padded_or_reversed(access.base):
            return False
        along = access.unit_axis
        return access.walked == frozenset(long) and along is not None and along != long[-1]

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        assert isinstance(op, ReduceOp)
        value = self.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
        value = self.as_bits(value) if value.type == S32 else value
        self.add(reduced := RowReduceOp(op.kind, value), op)
        if not are_bits(reduced.result):
            return reduced.result
        self.add(number := BitsOp(reduced.result), op)
        return number.result


def _is_padded_or_reversed(tensor: SSAValue) -> bool:
    """Whether copies read a tensor element by element, too."""
    while isinstance(view := tensor.owner, IndexMapOp):
        if not all(move.is_in_order for move in view.moves):
            return True
        tensor = view.operand
    return False


def store_along(
    body: Body, value: SSAValue, destination: SSAValue, axes: Axes, gone: Sequence[int]
) -> StoreOp | RowStoreOp:
    """Return the store of a value along `axes` of a kernel's space that reduces the axes `gone` of it.

    A value that varies along reduced axes is stored for each element, also where a view left out axes of
    extent 1; others once for each row.
    """
    if set(gone).isdisjoint(axes):
        return RowStoreOp(value, destination, axes)
    return StoreOp(value, build_view(Access(destination, axes), body.rank, body.program.block))


def lower_chain(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around a chain of reductions."""
    anchor = stage.anchor
    assert isinstance(anchor, ReduceOp)
    space = chain_space(anchor)
    body, known, fills = NormalizeBody(builder, stage, space), places(stage), identity(space)
    destinations = [builder.destinations(result) for result in stage.outputs]
    for root, targets in zip(stage.stored, destinations, strict=True):
        # What is not in flight fills the space: an operand that is stored as well.
        axes = known.get(root, fills)
        value = body.scalar(root, axes)
        for target in targets:
            given = body.without_cast(value, target)
            to = builder.regrouped(target, root)
            store = store_along(body, given, to, axes, anchor.axes.get_values())
            if body.leaves_cast(value, target):
                store.note_rounding()
            body.add(store)
    axes = anchor.axes.get_values()
    builder.block.add_op(NormalizeKernelOp(stage.stage_name.data, space, axes, Region(body.block)))
