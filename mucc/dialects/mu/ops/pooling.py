"""Pooling over one to three spatial axes of `[N, C, ...]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import window_rules
from mucc.dialects.mu.ops.base import AnchorOp, InferredOp, Ints, integer, ints
from mucc.dialects.mu.pooling_kinds import Pooling, PoolingAttr
from mucc.dialects.mu.surface import INTS, Function, Option, Parameter, X, axes, is_on, switch
from mucc.dialects.mu.surface import integer as option_integer
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.dialects.mu.windows import Window

Numbers = int | Sequence[int]
"""A number for all spatial axes, or one for each."""


@irdl_op_definition
class PoolOp(InferredOp, AnchorOp):
    """Reduce each window to its maximum, which ignores padding, or to its mean.

    With `ceil`, the last window may extend past the padding. A mean divides by the number of elements and
    paddings in the window, without `count_pad` by the number of elements alone, and with `divisor` by that.
    With `channels_last`, which only the compiler sets, the result is `[N, ..., C]`.
    """

    name = "mu.pool"

    kind = prop_def(PoolingAttr)
    size = prop_def(Ints)
    stride = prop_def(Ints)
    pad = prop_def(Ints)
    dilation = prop_def(Ints)
    ceil = opt_prop_def(UnitAttr)
    count_pad = opt_prop_def(UnitAttr)
    divisor = opt_prop_def(IntegerAttr)
    channels_last = opt_prop_def(UnitAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$kind $operand `size` $size `stride` $stride `pad` $pad `dilation` $dilation "
        "(`ceil` $ceil^)? (`count_pad` $count_pad^)? (`divisor` $divisor^)? "
        "(`channels_last` $channels_last^)? attr-dict `:` functional-type(operands, results)"
    )

    @property
    def space(self) -> Dims:
        return Shaped.of(self.result.type).dims

    def __init__(
        self,
        kind: str,
        operand: SSAValue | Operation,
        size: Numbers,
        stride: Numbers | None = None,
        pad: Numbers = 0,
        dilation: Numbers = 1,
        ceil: bool = False,
        count_pad: bool = True,
        divisor: int | None = None,
    ):
        x = SSAValue.get(operand)
        count = window_rules.spatial("pooling", x.type)
        sizes = window_rules.per_axis("size", size, count, 1)
        strides = window_rules.per_axis("stride", sizes if stride is None else stride, count, 1)
        pads = window_rules.per_axis("pad", pad, count)
        dilations = window_rules.per_axis("dilation", dilation, count, 1)
        if divisor is not None:
            window_rules.per_axis("divisor", divisor, 1, 1)
        result = window_rules.pool(x.type, sizes, strides, pads, dilations, ceil)
        super().__init__(
            operands=[x],
            result_types=[result],
            properties={
                "kind": PoolingAttr(Pooling(kind)),
                "size": ints(sizes),
                "stride": ints(strides),
                "pad": ints(pads),
                "dilation": ints(dilations),
                "ceil": UnitAttr() if ceil else None,
                "count_pad": UnitAttr() if count_pad and kind == Pooling.AVG and divisor is None else None,
                "divisor": None if divisor is None else integer(divisor),
            },
        )

    @property
    def windows(self) -> list[Window]:
        """The window along each spatial axis."""
        numbers = (self.size, self.stride, self.pad, self.dilation)
        return window_rules.windows(*(n.get_values() for n in numbers))

    @property
    def divides_by(self) -> int | None:
        """The number that sums of windows are divided by; None for the number of elements."""
        return None if self.divisor is None else self.divisor.value.data

    @property
    def function(self) -> str:
        return f"{self.kind.data.value}_pool"

    def inferred(self) -> Attribute:
        count = window_rules.spatial("pooling", self.operand.type)
        given = {"size": self.size, "stride": self.stride, "pad": self.pad, "dilation": self.dilation}
        for name, numbers in given.items():
            least = 0 if name == "pad" else 1
            if len(numbers) != count or min(numbers.get_values()) < least:
                raise VerifyException(f"mu.pool: '{name}' needs {count} numbers of at least {least}")
        if self.kind.data is Pooling.AVG and any(d != 1 for d in self.dilation.get_values()):
            raise VerifyException("mu.pool: a mean is taken of neighbours, without dilation")
        if self.divisor is not None and (self.kind.data is Pooling.MAX or self.divisor.value.data < 1):
            raise VerifyException("mu.pool: a divisor is that of a mean, and at least 1")
        result = window_rules.pool(
            self.operand.type, *(n.get_values() for n in given.values()), ceil=self.ceil is not None
        )
        if self.channels_last is None:
            return result
        batch, channels, *places = result.dims
        return TensorType.of((batch, *places, channels), result.element_type)


OPERATIONS = (PoolOp,)
ATTRIBUTES = (PoolingAttr,)


# The language

_SIZE, _STRIDE, _PAD = Parameter("size", INTS), Parameter("stride", INTS, "size"), Parameter("pad", INTS, "0")


def _pool(kind: Pooling, values: Sequence[SSAValue], options: dict[str, Option]) -> PoolOp:
    return PoolOp(
        kind,
        values[0],
        axes(options, "size") or 1,
        axes(options, "stride"),
        axes(options, "pad") or 0,
        axes(options, "dilation") or 1,
        is_on(options, "ceil"),
        is_on(options, "count_pad", "on"),
        option_integer(options, "divisor") or None,
    )


FUNCTIONS = (
    Function(
        "max_pool",
        (X, _SIZE, _STRIDE, _PAD, Parameter("dilation", INTS, "1"), switch("ceil")),
        "The largest element of each window over the spatial axes of `[N, C, ...]`",
        lambda v, o: _pool(Pooling.MAX, v, o),
    ),
    Function(
        "avg_pool",
        (X, _SIZE, _STRIDE, _PAD, switch("ceil"), switch("count_pad", "on"), Parameter("divisor", INTS, "0")),
        "The mean of each window over the spatial axes of `[N, C, ...]`; the sum over a `divisor` above 0",
        lambda v, o: _pool(Pooling.AVG, v, o),
    ),
)
