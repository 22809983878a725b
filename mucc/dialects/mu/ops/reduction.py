"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
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

from mucc.dialects.mu import rules, shape_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, Ints, check_result, integer, ints
from mucc.dialects.mu.ops.pointwise import ValueConstraint, number
from mucc.dialects.mu.ops.views import ExpandOp
from mucc.dialects.mu.surface import (
    AXES,
    NUMBER,
    Function,
    Option,
    Parameter,
    X,
    axes,
    is_on,
    switch,
)
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.surface import number as real
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import Dims, Shaped, TensorType


class Reduction(StrEnum):
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    AMAX = "amax"
    MEAN = "mean"
    PROD = "prod"
    ANY = "any"
    ALL = "all"

    @property
    def is_logical(self) -> bool:
        """Whether the reduction is from bools to a bool."""
        return self in (Reduction.ANY, Reduction.ALL)

    @property
    def is_exact(self) -> bool:
        """Whether the reduction of 32-bit integers is a 32-bit integer."""
        return self not in (Reduction.MEAN, Reduction.ANY, Reduction.ALL)


@irdl_attr_definition
class ReductionAttr(WordAttr[Reduction]):
    """The kind of a reduction; amax is the largest absolute value, any and all are of bools."""

    name = "mu.reduction"


@irdl_op_definition
class ReduceOp(AnchorOp):
    """Reduce over `axes`, which are dropped; the result is f32, s32 for s32, bool for any and all."""

    name = "mu.reduce"
    STAGE: ClassVar[str] = "reduction"

    kind = prop_def(ReductionAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$kind $operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(
        self, kind: str | ReductionAttr, operand: SSAValue | Operation, axes: Sequence[int] | None = None
    ):
        """Reduce `operand` over `axes`, or over all axes for None; negative axes count from the end."""
        value = SSAValue.get(operand)
        positions = rules.normalise_axes(axes, len(Shaped.of(value.type).dims))
        if isinstance(kind, str):
            kind = ReductionAttr(Reduction(kind))
        super().__init__(
            operands=[value],
            result_types=[rules.reduce(value.type, positions, kind.data.is_logical, kind.data.is_exact)],
            properties={"kind": kind, "axes": DenseArrayBase.from_list(i64, positions)},
        )

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def verify_(self) -> None:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.reduce: axes must be sorted and counted from the front")
        check_result(
            self, rules.reduce(self.operand.type, axes, self.kind.data.is_logical, self.kind.data.is_exact)
        )


@irdl_op_definition
class VarianceOp(InferredOp, AnchorOp):
    """The mean squared distance from the mean over `axes`, which are dropped; divided by n - correction."""

    name = "mu.variance"

    axes = prop_def(Ints)
    correction = prop_def(FloatAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$operand `axes` $axes `correction` $correction attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        axes: Sequence[int] | None = None,
        correction: float | FloatAttr = 1.0,
    ):
        value = SSAValue.get(operand)
        rank = len(shape_rules.tensor("var", value.type).dims)
        positions = rules.normalise_axes(axes, rank)
        super().__init__(
            operands=[value],
            result_types=[rules.reduce(value.type, positions)],
            properties={"axes": ints(positions), "correction": number(correction)},
        )

    @property
    def function(self) -> str:
        return "var"

    def inferred(self) -> Attribute:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.variance: axes must be sorted and counted from the front")
        return rules.reduce(self.operand.type, axes)


class Extreme(StrEnum):
    ARGMAX = "argmax"
    ARGMIN = "argmin"


@irdl_attr_definition
class ExtremeAttr(WordAttr[Extreme]):
    """The element that `mu.arg_reduce` finds: the largest or the smallest."""

    name = "mu.extreme"


@irdl_op_definition
class ArgReduceOp(InferredOp, AnchorOp):
    """Find the index of the first largest or smallest element along an axis, which is dropped.

    NaN counts as both the largest and the smallest, as in NumPy and torch.
    """

    name = "mu.arg_reduce"

    kind = prop_def(ExtremeAttr)
    axis = prop_def(IntegerAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$kind $operand `axis` $axis attr-dict `:` functional-type(operands, results)"

    def __init__(self, kind: str, operand: SSAValue | Operation, axis: int):
        value = SSAValue.get(operand)
        result = shape_rules.arg_reduce(kind, value.type, axis)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={"kind": ExtremeAttr(Extreme(kind)), "axis": integer(axis % (result.rank + 1))},
        )

    @property
    def function(self) -> str:
        return self.kind.data.value

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException("mu.arg_reduce: the axis must be counted from the front")
        return shape_rules.arg_reduce(self.kind.data.value, self.operand.type, self.axis.value.data)


OPERATIONS = (ReduceOp, VarianceOp, ArgReduceOp)
ATTRIBUTES = (ReductionAttr, ExtremeAttr)


# The language

_AXIS, _KEEP = Parameter("axis", AXES, "all"), switch("keepdims")


def kept(op: Operation, operand: SSAValue, over: Sequence[int] | None, options: dict[str, Option]):
    """Return a reduction; with `keepdims`, followed by the reduced axes inserted again with extent 1."""
    if not is_on(options, "keepdims"):
        return op
    return op, ExpandOp(op, rules.normalise_axes(over, len(Shaped.of(operand.type).dims)))


def _reduction(kind: Reduction) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]):
        over = axes(options)
        return kept(ReduceOp(kind, values[0], over), values[0], over, options)

    return Function(kind.value, (X, _AXIS, _KEEP), _DOCS[kind], build)


def _variance(values: Sequence[SSAValue], options: dict[str, Option]):
    over = axes(options)
    op = VarianceOp(values[0], over, real(options, "correction", 1.0))
    return kept(op, values[0], over, options)


def _extreme(kind: Extreme) -> Function:
    def build(values: Sequence[SSAValue], options: dict[str, Option]):
        axis = one(options, "axis")
        return kept(ArgReduceOp(kind, values[0], axis), values[0], (axis,), options)

    which = "largest" if kind is Extreme.ARGMAX else "smallest"
    doc = f"The number (s32) of the {which} element along an axis, the first of several"
    return Function(kind.value, (X, Parameter("axis", AXES), _KEEP), doc, build)


_DOCS = {
    Reduction.SUM: "The sum over the axes",
    Reduction.MAX: "The largest element over the axes",
    Reduction.MIN: "The smallest element over the axes",
    Reduction.AMAX: "The largest magnitude over the axes",
    Reduction.MEAN: "The mean over the axes",
    Reduction.PROD: "The product over the axes",
    Reduction.ANY: "Whether one of the bools holds",
    Reduction.ALL: "Whether all of the bools hold",
}

FUNCTIONS = (
    *map(_reduction, Reduction),
    Function(
        "var",
        (X, _AXIS, Parameter("correction", NUMBER, "1"), _KEEP),
        "The variance over the axes, divided by n - correction",
        _variance,
    ),
    *map(_extreme, Extreme),
)
