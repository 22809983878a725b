"""`cutlass.pool`: the op of a pooling kernel, and its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, Float32Type, IntAttr, IntegerAttr, StringAttr, UnitAttr, f32
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.attributes import dims_attr, dims_of
from mucc.dialects.cutlass.nodes import READS, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import SpaceKernelOp
from mucc.dialects.mu.ops.base import Ints, integer, ints
from mucc.dialects.mu.pooling_kinds import Pooling, PoolingAttr
from mucc.dialects.mu.types import Dim, Dims
from mucc.dialects.mu.window_rules import windows
from mucc.dialects.mu.windows import Window


@irdl_op_definition
class PooledOp(ValueNode):
    """The reduction of a value over the window at each element of the kernel's space."""

    name = "cutlass.pooled"

    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32])


@irdl_op_definition
class PoolKernelOp(SpaceKernelOp):
    """Pooling with windows along the last axes, with pointwise work before and behind it.

    `space` are the extents of what is stored, `source` those of what is pooled. With `channels_last` the axis
    without windows that comes before them is behind them. A mean divides by the number
    of elements in the window, with `count_pad` by that of elements and paddings, else by `divisor`.
    """

    name = "cutlass.pool"

    kind = prop_def(PoolingAttr)
    source = prop_def(ArrayAttr[IntAttr | StringAttr])
    size = prop_def(Ints)
    stride = prop_def(Ints)
    pad = prop_def(Ints)
    dilation = prop_def(Ints)
    count_pad = opt_prop_def(UnitAttr)
    divisor = opt_prop_def(IntegerAttr)
    channels_last = opt_prop_def(UnitAttr)

    FORMAT: ClassVar[str] = (
        "$stage $kind `space` $space `source` $source `size` $size `stride` $stride `pad` $pad "
        "`dilation` $dilation (`count_pad` $count_pad^)? (`divisor` $divisor^)? "
        "(`channels_last` $channels_last^)? $body attr-dict"
    )

    def __init__(
        self,
        stage: str,
        kind: Pooling,
        space: Sequence[Dim],
        source: Sequence[Dim],
        windows: Sequence[Window],
        body: Region,
        *,
        count_pad: bool = False,
        divisor: int | None = None,
        channels_last: bool = False,
    ):
        super().__init__(
            properties={
                "stage": StringAttr(stage),
                "kind": PoolingAttr(kind),
                "space": dims_attr(space),
                "source": dims_attr(source),
                "size": ints([w.size for w in windows]),
                "stride": ints([w.stride for w in windows]),
                "pad": ints([w.pad for w in windows]),
                "dilation": ints([w.dilation for w in windows]),
                "count_pad": UnitAttr() if count_pad else None,
                "divisor": None if divisor is None else integer(divisor),
                "channels_last": UnitAttr() if channels_last else None,
            },
            regions=[body],
        )

    @property
    def source_extents(self) -> Dims:
        """The extents of what is pooled."""
        return dims_of(self.source)

    @property
    def windows(self) -> dict[int, Window]:
        """The window along each axis of the space that has windows."""
        numbers = (self.size, self.stride, self.pad, self.dilation)
        found = windows(*(n.get_values() for n in numbers))
        end = len(self.extents) - (self.channels_last is not None)
        return dict(enumerate(found, end - len(found)))

    @property
    def divides_by(self) -> int | None:
        """The number that sums of windows are divided by; None for the number of elements."""
        return None if self.divisor is None else self.divisor.value.data

    @property
    def pooled(self) -> PooledOp:
        """The node that pools."""
        return next(op for op in self.nodes if isinstance(op, PooledOp))

    def verify_(self) -> None:
        self.verify_nodes((*READS, PooledOp, StoreOp))
        if (count := sum(isinstance(op, PooledOp) for op in self.nodes)) != 1:
            raise VerifyException(f"a {self.name} has one {PooledOp.name}, not {count}")
        if len(self.source) != len(self.space):
            raise VerifyException(f"{len(self.space)} axes of {len(self.source)}")
        if len({len(n) for n in (self.size, self.stride, self.pad, self.dilation)}) != 1:
            raise VerifyException("size, stride, pad and dilation need one number for each window")
        if len(self.size) > len(self.space) - (self.channels_last is not None):
            raise VerifyException(f"{len(self.size)} windows along {len(self.space)} axes")
        for axis in range(len(self.space)):
            if axis not in self.windows and self.extents[axis] != self.source_extents[axis]:
                raise VerifyException(f"axis {axis} has no window, but other extents before it")
