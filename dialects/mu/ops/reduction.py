"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.pointwise import ValueConstraint
from mucc.dialects.mu.syntax import FormattedOp, WordAttr
from mucc.dialects.mu.types import Shaped, TensorType

if TYPE_CHECKING:
    pass


class Reduction(StrEnum):
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AMAX = "amax"


@irdl_attr_definition
class ReductionAttr(WordAttr[Reduction]):
    """Which reduction: sum, max, min, or amax (the largest absolute value)."""

    name = "mu.reduction"


@irdl_op_definition
class ReduceOp(FormattedOp):
    """Reduce over `axes`, which are dropped; the result is f32."""

    name = "mu.reduce"

    SURFACE: ClassVar[tuple[str, ...]] = tuple(Reduction)

    kind = prop_def(ReductionAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$kind $operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(
        self, kind: str | ReductionAttr, operand: SSAValue | Operation, axes: Sequence[int] | None = None
    ):
        """Reduce `operand` over `axes`, all axes when None; negative axes count from the end."""
        value = SSAValue.get(operand)
        positions = rules.normalise_axes(axes, len(Shaped.of(value.type).dims))
        if isinstance(kind, str):
            kind = ReductionAttr(Reduction(kind))
        super().__init__(
            operands=[value],
            result_types=[rules.reduce(value.type, positions)],
            properties={"kind": kind, "axes": DenseArrayBase.from_list(i64, positions)},
        )

    def verify_(self) -> None:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.reduce: axes must be sorted and counted from the front")
        if self.result.type != (expected := rules.reduce(self.operand.type, axes)):
            raise VerifyException(f"mu.reduce: result type {self.result.type} should be {expected}")


OPERATIONS = (ReduceOp,)
ATTRIBUTES = (ReductionAttr,)
