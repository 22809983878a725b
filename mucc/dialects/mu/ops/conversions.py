"""Elementwise operations that change the dtype of a value."""

from __future__ import annotations

from abc import ABC

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.base import check_result
from mucc.dialects.mu.ops.pointwise import ElementwiseOp, ValueConstraint
from mucc.dialects.mu.types import Shaped, TensorType


class ConversionOp(ElementwiseOp, ABC):
    """Base of operations that change a value's dtype."""

    operand = operand_def(ValueConstraint)

    def __init__(self, operand: SSAValue | Operation, element_type: Attribute):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[rules.cast(value.type, element_type)])

    @property
    def element_type(self) -> Attribute:
        """The dtype of the result."""
        type = self.result.type
        return type.element_type if isinstance(type, TensorType) else type

    def verify_(self) -> None:
        if self.element_type == i1 and Shaped.of(self.operand.type).element_type != i1:
            raise VerifyException(f"{self.name}: a number becomes a bool by comparison, not by cast")
        check_result(self, rules.cast(self.operand.type, self.element_type))


@irdl_op_definition
class CastOp(ConversionOp):
    """Round to another dtype; a bool becomes 0 or 1."""

    name = "mu.cast"


@irdl_op_definition
class RetypeOp(ConversionOp):
    """Change the dtype without rounding: a later store rounds to the new dtype.

    `decompose` uses it to give the result of `softmax(x)`, computed in f32, the dtype of x.
    """

    name = "mu.retype"


@irdl_op_definition
class StoredOp(ConversionOp):
    """Round a value as the stage's store does, for further computation in the same stage; the dtype stays.

    `form-stages` inserts it where other stages read the stored value too, so that all uses agree.
    """

    name = "mu.stored"
