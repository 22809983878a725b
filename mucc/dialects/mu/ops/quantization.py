"""Dequantisation of narrow weights with scales."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from mucc.dialects.mu import scale_rules
from mucc.dialects.mu.ops.base import check_result
from mucc.dialects.mu.surface import VALUE, Function, Parameter, first_line
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Shaped, TensorType


@irdl_op_definition
class DequantizeOp(FormattedOp):
    """Compute `(w - zeros) * scales`, one scale and zero for each group of columns, in the scales' dtype."""

    name = "mu.dequantize"

    weights = operand_def(TensorType)
    scales = operand_def(TensorType)
    zeros = opt_operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$weights `,` $scales (`zeros` $zeros^)? attr-dict `:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(
        self,
        weights: SSAValue | Operation,
        scales: SSAValue | Operation,
        zeros: SSAValue | Operation | None = None,
    ):
        values = [SSAValue.get(v) for v in (weights, scales, *([] if zeros is None else [zeros]))]
        super().__init__(
            operands=[values[0], values[1], values[2:]],
            result_types=[scale_rules.dequantize([v.type for v in values])],
        )

    @property
    def group(self) -> int:
        """The number of columns that share a scale."""
        return scale_rules.group_size(
            Shaped.of(self.weights.type).dims[-1], Shaped.of(self.scales.type).dims[-1]
        )

    def verify_(self) -> None:
        check_result(self, scale_rules.dequantize([v.type for v in self.operands]))


OPERATIONS = (DequantizeOp,)

FUNCTIONS = (
    Function(
        "dequantize",
        (Parameter("w", VALUE), Parameter("scales", VALUE), Parameter("zeros", VALUE, "none")),
        first_line(DequantizeOp),
        lambda v, o: DequantizeOp(*v),
    ),
)
