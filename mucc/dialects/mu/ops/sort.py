"""Sorting along an axis: values in order, their positions, and the largest of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, integer
from mucc.dialects.mu.surface import AXES, INTS, Function, Option, Parameter, X, is_on, switch
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.types import Dims, Shaped, TensorType


@irdl_op_definition
class SortOp(InferredOp, AnchorOp):
    """Sort along an axis: the values in order, or with `positions` where in the operand each of them is.

    NaN is the largest value, and equal values keep their order, also with `descending`. Of `count` the first
    so many are left.
    """

    name = "mu.sort"

    axis = prop_def(IntegerAttr)
    positions = opt_prop_def(UnitAttr)
    descending = opt_prop_def(UnitAttr)
    count = opt_prop_def(IntegerAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "(`positions` $positions^)? $operand `axis` $axis (`descending` $descending^)? (`count` $count^)? "
        "attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        axis: int,
        *,
        positions: bool = False,
        descending: bool = False,
        count: int | None = None,
    ):
        value = SSAValue.get(operand)
        result = tensor_rules.sort(value.type, axis, count, positions=positions)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={
                "axis": integer(axis % result.rank),
                "positions": UnitAttr() if positions else None,
                "descending": UnitAttr() if descending else None,
                "count": None if count is None else integer(count),
            },
        )

    @property
    def function(self) -> str:
        name = "sort" if self.count is None else "topk"
        return name if self.positions is None else f"arg{name}"

    @property
    def taken(self) -> int | None:
        """How many elements are left along the axis; None for all."""
        return None if self.count is None else self.count.value.data

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def shares_order(self, other: SortOp) -> bool:
        """Whether both put the same elements into the same order."""
        keys = ("axis", "descending", "count")
        return self.operand is other.operand and all(
            self.properties.get(key) == other.properties.get(key) for key in keys
        )

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException("mu.sort: the axis must be counted from the front")
        has_positions = self.positions is not None
        return tensor_rules.sort(self.operand.type, self.axis.value.data, self.taken, positions=has_positions)


OPERATIONS = (SortOp,)


# The language


def _sort(name: str, doc: str, *, positions: bool) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
        axis, descending = one(options, "axis", -1), is_on(options, "descending")
        return SortOp(values[0], axis, positions=positions, descending=descending)

    return Function(name, (X, Parameter("axis", AXES, "-1"), switch("descending")), doc, build)


def _topk(name: str, doc: str, *, positions: bool) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
        axis, count = one(options, "axis", -1), one(options, "k")
        return SortOp(values[0], axis, positions=positions, descending=True, count=count)

    return Function(name, (X, Parameter("k", INTS), Parameter("axis", AXES, "-1")), doc, build)


FUNCTIONS = (
    _sort("sort", "The elements in order along an axis; NaN is the largest", positions=False),
    _sort("argsort", "Where each element of `sort` comes from (s32); equal ones keep order", positions=True),
    _topk("topk", "The k largest elements along an axis, the largest first", positions=False),
    _topk("argtopk", "Where each element of `topk` comes from (s32)", positions=True),
)
