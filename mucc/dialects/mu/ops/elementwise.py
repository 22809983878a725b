"""Elementwise operations: each element of the result from one element of each operand; shapes broadcast.

Operands are tensors or, inside the bodies of lowered kernels, scalars; the ops are the same at every level.
`mucc.passes.decompose` rewrites ops marked `COMPOSITE` into the others, so that operation counts and code
generation need the primitive ones only.
"""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.activations import (
    ClampOp,
    EluOp,
    HardsigmoidOp,
    HardswishOp,
    HardtanhOp,
    LeakyReluOp,
    MishOp,
    ReluOp,
    SeluOp,
    SiluOp,
    SoftsignOp,
)
from mucc.dialects.mu.ops.conversions import CastOp, RetypeOp, StoredOp
from mucc.dialects.mu.ops.integral import (
    BitwiseAndOp,
    BitwiseNotOp,
    BitwiseOrOp,
    BitwiseXorOp,
    CeilOp,
    FloorDivideOp,
    FloorOp,
    FmodOp,
    LeftShiftOp,
    RemainderOp,
    RightShiftOp,
    RoundOp,
    SignOp,
    TruncOp,
)
from mucc.dialects.mu.ops.pointwise import (
    BinaryOp,
    ConstantOp,
    ElementwiseOp,
    ExtentOp,
    UnaryOp,
    ValueConstraint,
)
from mucc.dialects.mu.syntax import WordAttr

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

# Arithmetic


@irdl_op_definition
class AddOp(BinaryOp):
    """Sum, spelled `a + b`."""

    name = "mu.add"
    INTEGER: ClassVar[bool] = True


@irdl_op_definition
class SubOp(BinaryOp):
    """Difference, spelled `a - b`."""

    name = "mu.sub"
    INTEGER: ClassVar[bool] = True


@irdl_op_definition
class MulOp(BinaryOp):
    """Product, spelled `a * b`."""

    name = "mu.mul"
    INTEGER: ClassVar[bool] = True


@irdl_op_definition
class DivOp(BinaryOp):
    """Quotient, spelled `a / b`."""

    name = "mu.div"

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return rules.quotient(operands)


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller of two values; NaN where one is NaN."""

    name = "mu.min"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "min"


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger of two values; NaN where one is NaN."""

    name = "mu.max"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "max"


@irdl_op_definition
class PowOp(BinaryOp):
    """a raised to b."""

    name = "mu.pow"
    SURFACE: ClassVar[str | None] = "pow"


@irdl_op_definition
class NegOp(UnaryOp):
    """Negation, spelled `-x` or `neg(x)`."""

    name = "mu.neg"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "neg"


@irdl_op_definition
class AbsOp(UnaryOp):
    """Absolute value."""

    name = "mu.abs"
    INTEGER: ClassVar[bool] = True
    SURFACE: ClassVar[str | None] = "abs"


# Elementary functions


@irdl_op_definition
class ExpOp(UnaryOp):
    """The exponential function."""

    name = "mu.exp"
    SURFACE: ClassVar[str | None] = "exp"


@irdl_op_definition
class Expm1Op(UnaryOp):
    """exp(x) - 1, accurate near 0."""

    name = "mu.expm1"
    SURFACE: ClassVar[str | None] = "expm1"


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm."""

    name = "mu.log"
    SURFACE: ClassVar[str | None] = "log"


@irdl_op_definition
class Log1pOp(UnaryOp):
    """log(1 + x), accurate near 0."""

    name = "mu.log1p"
    SURFACE: ClassVar[str | None] = "log1p"


@irdl_op_definition
class SqrtOp(UnaryOp):
    """Square root."""

    name = "mu.sqrt"
    SURFACE: ClassVar[str | None] = "sqrt"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """1 / sqrt(x)."""

    name = "mu.rsqrt"
    SURFACE: ClassVar[str | None] = "rsqrt"


@irdl_op_definition
class SinOp(UnaryOp):
    """Sine of an angle in radians."""

    name = "mu.sin"
    SURFACE: ClassVar[str | None] = "sin"


@irdl_op_definition
class CosOp(UnaryOp):
    """Cosine of an angle in radians."""

    name = "mu.cos"
    SURFACE: ClassVar[str | None] = "cos"


@irdl_op_definition
class TanOp(UnaryOp):
    """Tangent of an angle in radians."""

    name = "mu.tan"
    SURFACE: ClassVar[str | None] = "tan"


@irdl_op_definition
class Atan2Op(ElementwiseOp):
    """The angle of the point (x, y) in radians, from -pi to pi."""

    name = "mu.atan2"
    SURFACE: ClassVar[str | None] = "atan2"

    y = operand_def(ValueConstraint)
    x = operand_def(ValueConstraint)

    def __init__(self, y: SSAValue | Operation, x: SSAValue | Operation):
        values = [SSAValue.get(v) for v in (y, x)]
        super().__init__(operands=values, result_types=[self.result_type(values)])


@irdl_op_definition
class TanhOp(UnaryOp):
    """Hyperbolic tangent."""

    name = "mu.tanh"
    SURFACE: ClassVar[str | None] = "tanh"


@irdl_op_definition
class ErfOp(UnaryOp):
    """Error function."""

    name = "mu.erf"
    SURFACE: ClassVar[str | None] = "erf"


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """1 / (1 + exp(-x))."""

    name = "mu.sigmoid"
    SURFACE: ClassVar[str | None] = "sigmoid"


class Approximation(StrEnum):
    NONE = "none"
    TANH = "tanh"


@irdl_attr_definition
class ApproximationAttr(WordAttr[Approximation]):
    """The formula of gelu: by erf, or approximated by tanh."""

    name = "mu.approximation"


@irdl_op_definition
class GeluOp(UnaryOp):
    """x times the standard normal distribution function, by erf or by the tanh approximation."""

    name = "mu.gelu"
    SURFACE: ClassVar[str | None] = "gelu"

    approximate = opt_prop_def(ApproximationAttr)

    def __init__(self, operand: SSAValue | Operation, approximate: str = "none"):
        super().__init__(operand)
        if approximate != "none":
            self.properties["approximate"] = ApproximationAttr(Approximation(approximate))

    @property
    def uses_tanh(self) -> bool:
        return self.approximate is not None and self.approximate.data is Approximation.TANH


@irdl_op_definition
class SoftplusOp(UnaryOp):
    """log(1 + exp(beta * x)) / beta, without overflow."""

    name = "mu.softplus"
    SURFACE: ClassVar[str | None] = "softplus"
    PARAMS: ClassVar[dict[str, float]] = {"beta": 1.0}

    beta = prop_def(FloatAttr)


# Comparison, selection, conversion


class Relation(StrEnum):
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQ = "eq"
    NE = "ne"


@irdl_attr_definition
class RelationAttr(WordAttr[Relation]):
    """The comparison of `mu.cmp`."""

    name = "mu.relation"


@irdl_op_definition
class CmpOp(ElementwiseOp):
    """Compare two numbers; the result is a bool."""

    name = "mu.cmp"
    INTEGER: ClassVar[bool] = True

    relation = prop_def(RelationAttr)
    lhs = operand_def(ValueConstraint)
    rhs = operand_def(ValueConstraint)

    def __init__(self, relation: str | RelationAttr, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        a, b = SSAValue.get(lhs), SSAValue.get(rhs)
        if isinstance(relation, str):
            relation = RelationAttr(Relation(relation))
        super().__init__(
            operands=[a, b],
            result_types=[self.result_type([a, b])],
            properties={"relation": relation},
        )

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return rules.compare(*operands)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse `lt %a, %b : (types) -> type`."""
        relation = parser.parse_str_enum(Relation)
        op = super().parse(parser)
        op.properties["relation"] = RelationAttr(relation)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.relation.data.value}")
        super().print(printer)


class LogicalOp(ElementwiseOp, ABC):
    """Base of operations on bools, a mixin before `UnaryOp` or `BinaryOp`."""

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return rules.logical(operands)


@irdl_op_definition
class AndOp(LogicalOp, BinaryOp):
    """Logical and, spelled `a and b`."""

    name = "mu.and"


@irdl_op_definition
class OrOp(LogicalOp, BinaryOp):
    """Logical or, spelled `a or b`."""

    name = "mu.or"


@irdl_op_definition
class NotOp(LogicalOp, UnaryOp):
    """Logical negation, spelled `not a`."""

    name = "mu.not"


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """Select a where the condition is true, otherwise b; spelled `where(condition, a, b)`.

    Both are numbers, or both are bools.
    """

    name = "mu.select"
    INTEGER: ClassVar[bool] = True

    condition = operand_def(ValueConstraint)
    on_true = operand_def(ValueConstraint)
    on_false = operand_def(ValueConstraint)

    def __init__(
        self,
        condition: SSAValue | Operation,
        on_true: SSAValue | Operation,
        on_false: SSAValue | Operation,
    ):
        values = [SSAValue.get(v) for v in (condition, on_true, on_false)]
        super().__init__(operands=values, result_types=[self.result_type(values)])

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return rules.select(*operands)


ELEMENTWISE: tuple[type[ElementwiseOp], ...] = (
    AddOp,
    SubOp,
    MulOp,
    DivOp,
    MinOp,
    MaxOp,
    PowOp,
    RemainderOp,
    FmodOp,
    FloorDivideOp,
    NegOp,
    AbsOp,
    SignOp,
    FloorOp,
    CeilOp,
    RoundOp,
    TruncOp,
    ExpOp,
    Expm1Op,
    LogOp,
    Log1pOp,
    SqrtOp,
    RsqrtOp,
    SinOp,
    CosOp,
    TanOp,
    Atan2Op,
    TanhOp,
    ErfOp,
    SigmoidOp,
    GeluOp,
    SoftplusOp,
    ReluOp,
    LeakyReluOp,
    EluOp,
    SeluOp,
    SiluOp,
    SoftsignOp,
    MishOp,
    HardsigmoidOp,
    HardswishOp,
    HardtanhOp,
    ClampOp,
    CmpOp,
    AndOp,
    OrOp,
    NotOp,
    SelectOp,
    BitwiseAndOp,
    BitwiseOrOp,
    BitwiseXorOp,
    BitwiseNotOp,
    LeftShiftOp,
    RightShiftOp,
    CastOp,
    RetypeOp,
    StoredOp,
)


OPERATIONS = (*ELEMENTWISE, ConstantOp, ExtentOp)
ATTRIBUTES = (ApproximationAttr, RelationAttr)
