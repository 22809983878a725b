"""Composite activations: `mucc.passes.decompose` rewrites them into the primitive operations."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def

from mucc.dialects.mu.ops.pointwise import ElementwiseOp, UnaryOp, ValueConstraint

# Klambauer et al., Self-Normalizing Neural Networks, 2017.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


class CompositeOp(UnaryOp, ABC):
    """Base of unary activations that are decomposed."""

    COMPOSITE: ClassVar[bool] = True


@irdl_op_definition
class ReluOp(CompositeOp):
    """max(x, 0)."""

    name = "mu.relu"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "relu"


@irdl_op_definition
class LeakyReluOp(CompositeOp):
    """x where x > 0, else slope * x."""

    name = "mu.leaky_relu"
    SURFACE: ClassVar[str | None] = "leaky_relu"
    PARAMS: ClassVar[dict[str, float]] = {"slope": 0.01}

    slope = prop_def(FloatAttr)


@irdl_op_definition
class EluOp(CompositeOp):
    """x where x > 0, else alpha * (exp(x) - 1)."""

    name = "mu.elu"
    SURFACE: ClassVar[str | None] = "elu"
    PARAMS: ClassVar[dict[str, float]] = {"alpha": 1.0}

    alpha = prop_def(FloatAttr)


@irdl_op_definition
class SeluOp(CompositeOp):
    """elu with the self-normalising constants of Klambauer et al. 2017."""

    name = "mu.selu"
    SURFACE: ClassVar[str | None] = "selu"


@irdl_op_definition
class SiluOp(CompositeOp):
    """x * sigmoid(x)."""

    name = "mu.silu"
    SURFACE: ClassVar[str | None] = "silu"


@irdl_op_definition
class SoftsignOp(CompositeOp):
    """x / (1 + |x|)."""

    name = "mu.softsign"
    SURFACE: ClassVar[str | None] = "softsign"


@irdl_op_definition
class MishOp(CompositeOp):
    """x * tanh(softplus(x))."""

    name = "mu.mish"
    SURFACE: ClassVar[str | None] = "mish"


@irdl_op_definition
class HardsigmoidOp(CompositeOp):
    """clamp(x / 6 + 1/2, 0, 1)."""

    name = "mu.hardsigmoid"
    SURFACE: ClassVar[str | None] = "hardsigmoid"


@irdl_op_definition
class HardswishOp(CompositeOp):
    """x * hardsigmoid(x)."""

    name = "mu.hardswish"
    SURFACE: ClassVar[str | None] = "hardswish"


@irdl_op_definition
class HardtanhOp(CompositeOp):
    """clamp(x, lo, hi) with numbers for bounds."""

    name = "mu.hardtanh"
    SURFACE: ClassVar[str | None] = "hardtanh"
    PARAMS: ClassVar[dict[str, float]] = {"lo": -1.0, "hi": 1.0}

    lo = prop_def(FloatAttr)
    hi = prop_def(FloatAttr)


@irdl_op_definition
class ClampOp(ElementwiseOp):
    """min(max(x, lo), hi); the bounds may be values."""

    name = "mu.clamp"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "clamp"
    COMPOSITE: ClassVar[bool] = True

    operand = operand_def(ValueConstraint)
    lo = operand_def(ValueConstraint)
    hi = operand_def(ValueConstraint)

    def __init__(self, operand: SSAValue | Operation, lo: SSAValue | Operation, hi: SSAValue | Operation):
        values = [SSAValue.get(v) for v in (operand, lo, hi)]
        super().__init__(operands=values, result_types=[self.result_type(values)])
