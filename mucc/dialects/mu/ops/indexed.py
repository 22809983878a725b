"""Operations that read (gather, take_along) or write (scatter) by index; indices are an s32 tensor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import index_rules, tensor_rules
from mucc.dialects.mu.ops.base import AnchorOp, check_result, integer
from mucc.dialects.mu.surface import AXES, EXTENT, VALUE, Function, Option, Parameter, X
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dim, TensorType


class PickOp(FormattedOp, ABC):
    """Base of views that pick elements along one axis of `operand` by the numbers in `rows`, of s32."""

    operand = operand_def(TensorType)
    rows = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    @property
    @abstractmethod
    def row_axis(self) -> int:
        """The axis of `operand` along which `rows` counts."""


@irdl_op_definition
class GatherOp(PickOp):
    """Take entries of `operand` along its first axis by index, in the shape of the index tensor `rows`."""

    name = "mu.gather"

    FORMAT: ClassVar[str] = "$operand `rows` $rows attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, rows: SSAValue | Operation):
        value, index = SSAValue.get(operand), SSAValue.get(rows)
        super().__init__(operands=[value, index], result_types=[index_rules.gather(value.type, index.type)])

    @property
    def row_axis(self) -> int:
        return 0

    def verify_(self) -> None:
        check_result(self, index_rules.gather(self.operand.type, self.rows.type))


@irdl_op_definition
class ScatterOp(AnchorOp):
    """Place row i of `operand` at row `rows[i]` of a tensor of `extent` rows; the other rows are zero.

    Indices must not repeat.
    """

    name = "mu.scatter"

    extent = prop_def(IntAttr | StringAttr)
    operand = operand_def(TensorType)
    rows = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$operand `rows` $rows `extent` $extent attr-dict `:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, rows: SSAValue | Operation, extent: Dim):
        value, index = SSAValue.get(operand), SSAValue.get(rows)
        super().__init__(
            operands=[value, index],
            result_types=[index_rules.scatter(value.type, index.type, extent)],
            properties={"extent": IntAttr(extent) if isinstance(extent, int) else StringAttr(extent)},
        )

    def verify_(self) -> None:
        check_result(self, index_rules.scatter(self.operand.type, self.rows.type, self.extent.data))


@irdl_op_definition
class TakeAlongOp(PickOp):
    """Take elements of `operand` along an axis, one for each number in `rows` (torch's `gather`)."""

    name = "mu.take_along"

    axis = prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = (
        "$operand `index` $rows `axis` $axis attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue | Operation, index: SSAValue | Operation, axis: int):
        value, numbers = SSAValue.get(operand), SSAValue.get(index)
        result = tensor_rules.take_along(value.type, numbers.type, axis)
        super().__init__(
            operands=[value, numbers],
            result_types=[result],
            properties={"axis": integer(axis % result.rank)},
        )

    @property
    def row_axis(self) -> int:
        return self.axis.value.data

    def verify_(self) -> None:
        if self.row_axis < 0:
            raise VerifyException("mu.take_along: the axis must be counted from the front")
        check_result(self, tensor_rules.take_along(self.operand.type, self.rows.type, self.row_axis))


OPERATIONS = (GatherOp, ScatterOp, TakeAlongOp)


def _scatter(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
    extent = options["extent"]
    assert isinstance(extent, int | str)
    return ScatterOp(values[0], values[1], extent)


FUNCTIONS = (
    Function(
        "gather",
        (X, Parameter("rows", VALUE)),
        "The rows of x that `rows` names, `x[rows]`",
        lambda v, o: GatherOp(v[0], v[1]),
    ),
    Function(
        "scatter",
        (X, Parameter("rows", VALUE), Parameter("extent", EXTENT)),
        "`extent` rows: row i of x becomes row `rows[i]`, all others are zero",
        _scatter,
    ),
    Function(
        "take_along",
        (X, Parameter("index", VALUE), Parameter("axis", AXES)),
        "Element `index[i, j]` of x along an axis, at each place of the index (s32); torch's gather",
        lambda v, o: TakeAlongOp(v[0], v[1], one(o, "axis")),
    ),
)
