"""Softmax and normalisation: composites of reductions and arithmetic, which `decompose` rewrites."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import rules, tensor_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, Ints, integer, ints
from mucc.dialects.mu.ops.pointwise import number
from mucc.dialects.mu.ops.reduction import kept
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.shape_rules import tensor
from mucc.dialects.mu.surface import AXES, INTS, NUMBER, Function, Option, Parameter, X, axes, switch
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.surface import number as real
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.library.extents import divide


class AlongAxisOp(InferredOp, AnchorOp, ABC):
    """Base of operations along one axis that keep the shape."""

    axis = prop_def(IntegerAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `axis` $axis attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, axis: int = -1):
        value = SSAValue.get(operand)
        result = tensor_rules.along(self.name, value.type, (axis,))
        super().__init__(
            operands=[value], result_types=[result], properties={"axis": integer(axis % result.rank)}
        )

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException(f"{self.name}: the axis must be counted from the front")
        return tensor_rules.along(self.name, self.operand.type, (self.axis.value.data,))


@irdl_op_definition
class SoftmaxOp(AlongAxisOp):
    """exp(x) divided by the sum of exp(x) along an axis."""

    name = "mu.softmax"


@irdl_op_definition
class LogSoftmaxOp(AlongAxisOp):
    """The logarithm of softmax, which is exact where softmax rounds to 0."""

    name = "mu.log_softmax"


@irdl_op_definition
class LogSumExpOp(InferredOp, AnchorOp):
    """log(sum(exp(x))) over `axes`, which are dropped, without overflow; the result is f32."""

    name = "mu.logsumexp"

    axes = prop_def(Ints)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, axes: Sequence[int] | None = None):
        value = SSAValue.get(operand)
        positions = rules.normalise_axes(axes, len(Shaped.of(value.type).dims))
        super().__init__(
            operands=[value],
            result_types=[tensor_rules.log_sum(value.type, positions)],
            properties={"axes": ints(positions)},
        )

    def inferred(self) -> Attribute:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.logsumexp: axes must be sorted and counted from the front")
        return tensor_rules.log_sum(self.operand.type, axes)


class Normalisation(StrEnum):
    """The statistics to normalise by: mean and variance, or the mean square."""

    STANDARD = "standard"
    RMS = "rms"


@irdl_attr_definition
class NormalisationAttr(WordAttr[Normalisation]):
    """The statistics that `mu.normalize` normalises by."""

    name = "mu.normalisation"


@irdl_op_definition
class NormalizeOp(InferredOp, AnchorOp):
    """`(x - mean) * rsqrt(var + eps)` over `axes`, var uncorrected; rms: `x * rsqrt(mean(x * x) + eps)`."""

    name = "mu.normalize"

    kind = prop_def(NormalisationAttr)
    axes = prop_def(Ints)
    eps = prop_def(FloatAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$kind $operand `axes` $axes `eps` $eps attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self, kind: str, operand: SSAValue | Operation, axes: Sequence[int], eps: float | FloatAttr = 1e-5
    ):
        value = SSAValue.get(operand)
        result = tensor_rules.along("normalisation", value.type, axes)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={
                "kind": NormalisationAttr(Normalisation(kind)),
                "axes": ints(rules.normalise_axes(axes, result.rank)),
                "eps": number(eps),
            },
        )

    @property
    def function(self) -> str:
        return "layer_norm" if self.kind.data is Normalisation.STANDARD else "rms_norm"

    def inferred(self) -> Attribute:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.normalize: axes must be sorted and counted from the front")
        return tensor_rules.along("normalisation", self.operand.type, axes)


OPERATIONS = (SoftmaxOp, LogSoftmaxOp, LogSumExpOp, NormalizeOp)
ATTRIBUTES = (NormalisationAttr,)


# The language

Values = Sequence[SSAValue]
Options = dict[str, Option]

_LAST, _EPS = Parameter("axis", AXES, "-1"), Parameter("eps", NUMBER, "1e-05")


def _log_sum(values: Values, options: Options):
    over = axes(options)
    return kept(LogSumExpOp(values[0], over), values[0], over, options)


def _eps(options: Options) -> float:
    return real(options, "eps", 1e-5)


def _over_last(kind: Normalisation) -> Callable[[Values, Options], Operation]:
    return lambda v, o: NormalizeOp(kind, v[0], axes(o) or (-1,), _eps(o))


def _batch_norm(values: Values, options: Options) -> Operation:
    rank = len(tensor("batch_norm", values[0].type, 2).dims)
    return NormalizeOp("standard", values[0], (0, *range(2, rank)), _eps(options))


def _instance_norm(values: Values, options: Options) -> Operation:
    rank = len(tensor("instance_norm", values[0].type, 3).dims)
    return NormalizeOp("standard", values[0], range(2, rank), _eps(options))


def _group_norm(values: Values, options: Options) -> Sequence[Operation]:
    """Normalise `[N, groups, C/groups, ...]` over all axes but the first two."""
    value = tensor("group_norm", values[0].type, 2)
    groups, channels = one(options, "groups", 1), value.dims[1]
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise rules.TypeRuleError(
            "MU1100", f"{channels} channels of group_norm cannot be divided into {groups} groups"
        )
    split = ReshapeOp(values[0], (value.dims[0], groups, divide(channels, groups), *value.dims[2:]))
    normal = NormalizeOp("standard", split, range(2, len(value.dims) + 1), _eps(options))
    return split, normal, ReshapeOp(normal, value.dims)


FUNCTIONS = (
    Function(
        "softmax",
        (X, _LAST),
        "exp(x) over the sum of exp(x) along an axis",
        lambda v, o: SoftmaxOp(v[0], one(o, "axis", -1)),
    ),
    Function(
        "log_softmax",
        (X, _LAST),
        "The logarithm of softmax, which is exact where softmax rounds to 0",
        lambda v, o: LogSoftmaxOp(v[0], one(o, "axis", -1)),
    ),
    Function(
        "logsumexp",
        (X, Parameter("axis", AXES, "all"), switch("keepdims")),
        "log(sum(exp(x))) over the axes, without overflow",
        _log_sum,
    ),
    Function(
        "layer_norm",
        (X, _LAST, _EPS),
        "`(x - mean) * rsqrt(var + eps)` over the axes; weight and bias are arithmetic",
        _over_last(Normalisation.STANDARD),
    ),
    Function(
        "rms_norm",
        (X, _LAST, _EPS),
        "`x * rsqrt(mean(x * x) + eps)` over the axes",
        _over_last(Normalisation.RMS),
    ),
    Function(
        "batch_norm",
        (X, _EPS),
        "layer_norm over all axes of `[N, C, ...]` but C: by the statistics of this batch",
        _batch_norm,
    ),
    Function("instance_norm", (X, _EPS), "layer_norm over the spatial axes of `[N, C, ...]`", _instance_norm),
    Function(
        "group_norm",
        (X, Parameter("groups", INTS), _EPS),
        "layer_norm over the spatial axes of `[N, C, ...]` and the channels of each group",
        _group_norm,
    ),
)
