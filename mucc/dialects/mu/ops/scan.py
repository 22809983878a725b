"""Scans: running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import tensor_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, integer
from mucc.dialects.mu.surface import AXES, Function, Option, Parameter, X, is_on, switch
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import TensorType


class Scan(StrEnum):
    """The operation of a scan: running sum or running product."""

    SUM = "sum"
    PROD = "prod"


@irdl_attr_definition
class ScanAttr(WordAttr[Scan]):
    """The operation of `mu.scan`."""

    name = "mu.scan_kind"


@irdl_op_definition
class ScanOp(InferredOp, AnchorOp):
    """Compute the sum or product of each element and all elements before it along an axis.

    With `reverse`, of each element and all after it; with `exclusive`, without the element itself.
    """

    name = "mu.scan"

    kind = prop_def(ScanAttr)
    axis = prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    exclusive = opt_prop_def(UnitAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$kind $operand `axis` $axis (`reverse` $reverse^)? (`exclusive` $exclusive^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        kind: str,
        operand: SSAValue | Operation,
        axis: int,
        reverse: bool = False,
        exclusive: bool = False,
    ):
        value = SSAValue.get(operand)
        result = tensor_rules.scan(value.type, axis)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={
                "kind": ScanAttr(Scan(kind)),
                "axis": integer(axis % result.rank),
                "reverse": UnitAttr() if reverse else None,
                "exclusive": UnitAttr() if exclusive else None,
            },
        )

    @property
    def function(self) -> str:
        return f"cum{self.kind.data.value}"

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException("mu.scan: the axis must be counted from the front")
        return tensor_rules.scan(self.operand.type, self.axis.value.data)


OPERATIONS = (ScanOp,)
ATTRIBUTES = (ScanAttr,)


# The language


def _scan(name: str, kind: Scan, doc: str) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]) -> Operation:
        axis = one(options, "axis")
        return ScanOp(kind, values[0], axis, is_on(options, "reverse"), is_on(options, "exclusive"))

    return Function(name, (X, Parameter("axis", AXES), switch("reverse"), switch("exclusive")), doc, build)


FUNCTIONS = (
    _scan("cumsum", Scan.SUM, "The sum of each element and all before it along an axis"),
    _scan("cumprod", Scan.PROD, "The product of each element and all before it along an axis"),
)
