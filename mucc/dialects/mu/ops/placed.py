"""Operands of selects between moved elements: placed operands, and conditions on the index.

Passes write them; the language has no functions for them.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.ops.base import integer
from mucc.dialects.mu.ops.views import GeneratedOp, IndexMapOp, Move
from mucc.dialects.mu.types import Dim, Shaped, TensorType, dim_attr


@irdl_op_definition
class PlaceOp(IndexMapOp):
    """The operand as a part of a longer axis, from index `low` on; the other elements have no value.

    `decompose` writes concatenation as a choice between operands that are placed in the result's shape.
    """

    name = "mu.place"

    axis = prop_def(IntegerAttr)
    low = prop_def(IntAttr | StringAttr)

    FORMAT: ClassVar[str] = "$operand `axis` $axis `at` $low attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, axis: int, low: Dim, extent: Dim):
        value = SSAValue.get(operand)
        dims, element = Shaped.of(value.type)
        dims = (*dims[:axis], extent, *dims[axis + 1 :])
        super().__init__(
            operands=[value],
            result_types=[TensorType.of(dims, element)],
            properties={"axis": integer(axis), "low": dim_attr(low)},
        )

    @property
    def moves(self) -> tuple[Move, ...]:
        axis, low = self.axis.value.data, self.low.data
        return (Move(axis, ((-1, low),), bounds=(low, Shaped.of(self.operand.type).dims[axis])),)

    def inferred(self) -> Attribute:
        axis, (dims, element) = self.axis.value.data, Shaped.of(self.operand.type)
        if not 0 <= axis < len(dims):
            raise VerifyException(f"mu.place: no axis {axis}")
        extent = Shaped.of(self.result.type).dims[axis]
        return TensorType.of((*dims[:axis], extent, *dims[axis + 1 :]), element)


@irdl_op_definition
class InsideOp(GeneratedOp):
    """Whether the index along an axis is one of `count` from `low` on, with extent 1 along other axes."""

    name = "mu.inside"

    axis = prop_def(IntegerAttr)
    low = prop_def(IntAttr | StringAttr)
    count = prop_def(IntAttr | StringAttr)

    FORMAT: ClassVar[str] = "`axis` $axis `from` $low `count` $count attr-dict `:` type($result)"

    def __init__(self, rank: int, axis: int, extent: Dim, low: Dim, count: Dim):
        dims = tuple(extent if i == axis else 1 for i in range(rank))
        super().__init__(
            result_types=[TensorType.of(dims, i1)],
            properties={"axis": integer(axis), "low": dim_attr(low), "count": dim_attr(count)},
        )

    @property
    def range(self) -> tuple[Dim, Dim]:
        """The first index, and the number of indices."""
        return self.low.data, self.count.data

    def inferred(self) -> Attribute:
        axis, dims = self.axis.value.data, Shaped.of(self.result.type).dims
        if not 0 <= axis < len(dims):
            raise VerifyException(f"mu.inside: no axis {axis}")
        return TensorType.of([d if i == axis else 1 for i, d in enumerate(dims)], i1)


OPERATIONS = (PlaceOp, InsideOp)
