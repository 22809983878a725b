"""Convolutions over one to three spatial axes of `[N, C, ...]`, as in torch; a bias is added by `mu.add`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import window_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, Ints, integer, ints
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.surface import INTS, VALUE, WORD, Function, Option, Parameter, X, axes
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_name
from mucc.dialects.mu.windows import Window

Numbers = int | Sequence[int]
"""A number for all spatial axes, or one for each."""


class ConvolutionOp(InferredOp, AnchorOp, ABC):
    """Base of convolution and transposed convolution.

    With `channels_last`, which only the compiler sets, the result is `[N, ..., O]`.
    """

    compute = prop_def(ComputeAttr)
    stride = prop_def(Ints)
    pad = prop_def(Ints)
    dilation = prop_def(Ints)
    groups = prop_def(IntegerAttr)
    channels_last = opt_prop_def(UnitAttr)
    operand = operand_def(TensorType)
    weight = operand_def(TensorType)

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def __init__(
        self,
        x: SSAValue,
        w: SSAValue,
        result: TensorType,
        compute: ComputeAttr | None,
        groups: int,
        **geometry: Sequence[int],
    ):
        """`geometry` has a number for each spatial axis, by property: stride, pad, dilation, output_pad."""
        super().__init__(
            operands=[x, w],
            result_types=[result],
            properties={
                "compute": compute or ComputeAttr.default(x.type, w.type),
                "groups": integer(groups),
                **{name: ints(numbers) for name, numbers in geometry.items()},
            },
        )

    @property
    def result_dims(self) -> Dims:
        """The extents `[N, O, ...]` of the result, in whatever order it has them."""
        dims = Shaped.of(self.result.type).dims
        return dims if self.channels_last is None else (dims[0], dims[-1], *dims[1:-1])

    def _ordered(self, type: TensorType) -> TensorType:
        """Return a type of `[N, O, ...]` in the order of the result."""
        batch, outputs, *places = type.dims
        if self.channels_last is None:
            return type
        return TensorType.of((batch, *places, outputs), type.element_type)

    @property
    def windows(self) -> list[Window]:
        """The window along each spatial axis."""
        sizes = [int(d) for d in Shaped.of(self.weight.type).dims[2:]]
        numbers = (self.stride, self.pad, self.dilation)
        return window_rules.windows(sizes, *(n.get_values() for n in numbers))

    def verify_(self) -> None:
        count = window_rules.spatial(self.name, self.operand.type)
        numbers = (("stride", self.stride, 1), ("pad", self.pad, 0), ("dilation", self.dilation, 1))
        for name, given, least in numbers:
            if len(given) != count or min(given.get_values()) < least:
                raise VerifyException(f"{self.name}: '{name}' needs {count} numbers of at least {least}")
        if self.compute.data not in ComputeAttr.choices(self.operand.type, self.weight.type):
            raise VerifyException(f"{self.name}: operands do not compute in {self.compute.data}")
        super().verify_()


@irdl_op_definition
class ConvOp(ConvolutionOp):
    """Convolve `[N, C, ...]` with `[O, C/groups, ...]`, which is not flipped (cross-correlation)."""

    name = "mu.conv"

    FORMAT: ClassVar[str] = (
        "$compute $operand `,` $weight `stride` $stride `pad` $pad `dilation` $dilation `groups` $groups "
        "(`channels_last` $channels_last^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        weight: SSAValue | Operation,
        stride: Numbers = 1,
        pad: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        compute: ComputeAttr | None = None,
    ):
        x, w = SSAValue.get(operand), SSAValue.get(weight)
        strides, pads, dilations = _geometry(window_rules.spatial("conv", x.type), stride, pad, dilation)
        result = window_rules.conv(x.type, w.type, strides, pads, dilations, groups)
        super().__init__(x, w, result, compute, groups, stride=strides, pad=pads, dilation=dilations)

    def inferred(self) -> Attribute:
        type = window_rules.conv(
            self.operand.type,
            self.weight.type,
            self.stride.get_values(),
            self.pad.get_values(),
            self.dilation.get_values(),
            self.groups.value.data,
        )
        return self._ordered(type)


@irdl_op_definition
class ConvTransposeOp(ConvolutionOp):
    """Transposed convolution of `[N, C, ...]` with `[C, O/groups, ...]`, the input gradient of `conv`."""

    name = "mu.conv_transpose"

    output_pad = prop_def(Ints)

    FORMAT: ClassVar[str] = (
        "$compute $operand `,` $weight `stride` $stride `pad` $pad `output_pad` $output_pad "
        "`dilation` $dilation `groups` $groups (`channels_last` $channels_last^)? attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        weight: SSAValue | Operation,
        stride: Numbers = 1,
        pad: Numbers = 0,
        output_pad: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        compute: ComputeAttr | None = None,
    ):
        x, w = SSAValue.get(operand), SSAValue.get(weight)
        count = window_rules.spatial("conv_transpose", x.type)
        strides, pads, dilations = _geometry(count, stride, pad, dilation)
        more = window_rules.per_axis("output_pad", output_pad, count)
        result = window_rules.conv_transpose(x.type, w.type, strides, pads, more, dilations, groups)
        super().__init__(
            x, w, result, compute, groups, stride=strides, pad=pads, output_pad=more, dilation=dilations
        )

    def inferred(self) -> Attribute:
        if len(self.output_pad) != len(self.stride) or min(self.output_pad.get_values()) < 0:
            raise VerifyException("mu.conv_transpose: 'output_pad' needs a number for each spatial axis")
        type = window_rules.conv_transpose(
            self.operand.type,
            self.weight.type,
            self.stride.get_values(),
            self.pad.get_values(),
            self.output_pad.get_values(),
            self.dilation.get_values(),
            self.groups.value.data,
        )
        return self._ordered(type)


def _geometry(count: int, stride: Numbers, pad: Numbers, dilation: Numbers):
    """Expand strides, pads and dilations to one for each spatial axis. Raises TypeRuleError MU1095."""
    return (
        window_rules.per_axis("stride", stride, count, 1),
        window_rules.per_axis("pad", pad, count),
        window_rules.per_axis("dilation", dilation, count, 1),
    )


@irdl_op_definition
class PartialMomentsOp(FormattedOp):
    """Moments of parts of the channels of a convolution's result, which its kernel has in flight.

    The result `[3, rows, K]` has means, sums of squared distances from them, and numbers of elements. Its
    elements behind the first axis are those of `[N, O, cells]`, or with `across` of `[O, cells]`: cells are
    parts of a channel of one element of the batch, or of the whole batch. A kernel divides a channel as its
    tiles do; empty cells have zeros.
    """

    name = "mu.partial_moments"

    channel = prop_def(IntegerAttr)
    across = opt_prop_def(UnitAttr)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$operand `channel` $channel (`across` $across^)? attr-dict `:` functional-type(operands, results)"
    )

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, channel: int, across: bool, result: TensorType):
        super().__init__(
            operands=[operand],
            result_types=[result],
            properties={"channel": integer(channel), "across": UnitAttr() if across else None},
        )

    def verify_(self) -> None:
        result = Shaped.of(self.result.type)
        if result.dims[0] != 3 or dtype_name(result.element_type) != "f32" or len(result.dims) < 3:
            raise VerifyException("mu.partial_moments: the result is three f32 tensors of rows and cells")


OPERATIONS = (ConvOp, ConvTransposeOp, PartialMomentsOp)


# The language

Values = Sequence[SSAValue]
Options = dict[str, Option]

_W, _STRIDE, _PAD = Parameter("w", VALUE), Parameter("stride", INTS, "1"), Parameter("pad", INTS, "0")
_DILATION, _GROUPS = Parameter("dilation", INTS, "1"), Parameter("groups", INTS, "1")
_COMPUTE = Parameter("compute", WORD, "auto", (Compute.TF32, Compute.TF32X3, Compute.F32))


def _requested_format(values: Values, options: Options) -> ComputeAttr | None:
    """Read the option `compute`. Raises TypeRuleError MU1010 for a format that the operands do not allow."""
    if (wanted := options.get("compute")) is None:
        return None
    dtypes = [Shaped.of(v.type).element_type for v in values]
    if wanted not in ComputeAttr.choices(*dtypes):
        raise TypeRuleError(
            "MU1010",
            f"{dtype_name(dtypes[0])} operands cannot compute in {wanted}",
            helps=("leave `compute` out",),
        )
    return ComputeAttr(Compute(str(wanted)))


def _conv(values: Values, options: Options) -> ConvOp:
    x, w = values
    return ConvOp(
        x,
        w,
        axes(options, "stride") or 1,
        axes(options, "pad") or 0,
        axes(options, "dilation") or 1,
        one(options, "groups", 1),
        _requested_format(values, options),
    )


def _conv_transpose(values: Values, options: Options) -> ConvTransposeOp:
    x, w = values
    return ConvTransposeOp(
        x,
        w,
        axes(options, "stride") or 1,
        axes(options, "pad") or 0,
        axes(options, "output_pad") or 0,
        axes(options, "dilation") or 1,
        one(options, "groups", 1),
        _requested_format(values, options),
    )


FUNCTIONS = (
    Function(
        "conv",
        (X, _W, _STRIDE, _PAD, _DILATION, _GROUPS, _COMPUTE),
        "Convolution of x `[N, C, ...]` with w `[O, C/groups, ...]` over 1 to 3 spatial axes",
        _conv,
    ),
    Function(
        "conv_transpose",
        (X, _W, _STRIDE, _PAD, Parameter("output_pad", INTS, "0"), _DILATION, _GROUPS, _COMPUTE),
        "Transposed convolution of x `[N, C, ...]` with w `[C, O/groups, ...]`",
        _conv_transpose,
    ),
)
