"""`cutlass.conv`: the op of a convolution kernel, and its node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import Float32Type, IntegerAttr, StringAttr, UnitAttr, f32
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.cutlass.attributes import dims_attr
from mucc.dialects.cutlass.nodes import READS, StoreNode, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import SpaceKernelOp
from mucc.dialects.mu import window_rules
from mucc.dialects.mu.ops.base import Ints, integer, ints
from mucc.dialects.mu.ops.contraction import ComputeAttr
from mucc.dialects.mu.pooling_kinds import Pooling, PoolingAttr
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType
from mucc.dialects.mu.windows import Window
from mucc.kernels.normalize.op import RowReduceOp, RowStoreOp


class Strategy(StrEnum):
    """How a kernel computes a convolution."""

    TILES = "tiles"
    """Implicit GEMM by mma.sync or multiply-adds, tile by tile."""
    WARPGROUPS = "warpgroups"
    """Implicit GEMM by wgmma, with tiles that TMA loads in its im2col mode."""
    MATRICES = "matrices"
    """Products of matrices by wgmma, of windows of one element and x with channels first."""
    PLANES = "planes"
    """Implicit GEMM by wgmma from planes of x, channels first, that TMA loads once for all taps."""
    POSITIONS = "positions"
    """A product by wgmma whose K is the positions of a window as large as x: gradients of weights."""
    PATCHES = "patches"
    """Implicit GEMM by mma.sync whose taps are read from one patch of x in shared memory."""
    DIRECT = "direct"
    """Each thread sums up a few outputs, without tensor cores."""


@irdl_attr_definition
class StrategyAttr(WordAttr[Strategy]):
    """How a kernel computes a convolution."""

    name = "cutlass.conv_strategy"


class Geometry(NamedTuple):
    """Windows along the spatial axes, groups of channels, whether the windows lie on the result, and whether
    channels are the last axis of the result instead of the second.
    """

    stride: Sequence[int]
    pad: Sequence[int]
    dilation: Sequence[int]
    groups: int = 1
    transposed: bool = False
    channels_last: bool = False

    def has_single_elements(self, window: Sequence[Dim]) -> bool:
        """Whether windows are single elements of x, so that strides skip the others."""
        return not self.transposed and not any(self.pad) and all(size == 1 for size in window)


@irdl_op_definition
class ConvolvedOp(ValueNode):
    """The sum of products of each output."""

    name = "cutlass.convolved"

    FORMAT: ClassVar[str] = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[f32])


@irdl_op_definition
class PooledSumsOp(ValueNode):
    """The maximum or the mean of a value over a window of positions: one for each of `size` along the spatial
    axes, of which those that are not whole are left out.
    """

    name = "cutlass.pooled_sums"

    kind = prop_def(PoolingAttr)
    size = prop_def(Ints)
    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$kind $value `size` $size attr-dict"

    def __init__(self, kind: Pooling, value: SSAValue, size: Sequence[int]):
        super().__init__(
            operands=[value],
            result_types=[f32],
            properties={"kind": PoolingAttr(kind), "size": ints(size)},
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(self.size.get_values())


@irdl_op_definition
class StoreMomentsOp(StoreNode):
    """Moments of a value over the positions of each tile, for each channel: see `mu.partial_moments`."""

    name = "cutlass.store_moments"

    across = opt_prop_def(UnitAttr)

    FORMAT: ClassVar[str] = "$value `,` $destination (`across` $across^)? attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue, across: bool):
        IRDLOperation.__init__(
            self, operands=[value, destination], properties={"across": UnitAttr() if across else None}
        )


@irdl_op_definition
class ConvKernelOp(SpaceKernelOp):
    """A convolution of `x` `[N, C, ...]` with `w` to a space `[N, O, ...]`, or with
    `channels_last` `[N, ..., O]`, with pointwise work behind it, and reductions over all channels or
    a pool.

    `w` is `[O, C/groups, ...]`, or `[C, O/groups, ...]` of a transposed convolution. Windows begin `pad`
    before the first element; where they end follows from the extents of the space.
    """

    name = "cutlass.conv"

    strategy = prop_def(StrategyAttr)
    compute = prop_def(ComputeAttr)
    stride = prop_def(Ints)
    pad = prop_def(Ints)
    dilation = prop_def(Ints)
    groups = prop_def(IntegerAttr)
    transposed = opt_prop_def(UnitAttr)
    channels_last = opt_prop_def(UnitAttr)
    x = operand_def(TensorType)
    w = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$stage $strategy $compute $x `,` $w `space` $space (`channels_last` $channels_last^)? "
        "(`transposed` $transposed^)? `stride` $stride "
        "`pad` $pad `dilation` $dilation `groups` $groups $body attr-dict `:` type($x) `,` type($w)"
    )

    def __init__(
        self,
        stage: str,
        strategy: Strategy,
        compute: ComputeAttr,
        x: SSAValue,
        w: SSAValue,
        space: Sequence[Dim],
        geometry: Geometry,
        body: Region,
    ):
        super().__init__(
            operands=[x, w],
            properties={
                "stage": StringAttr(stage),
                "space": dims_attr(space),
                "strategy": StrategyAttr(strategy),
                "compute": compute,
                "stride": ints(geometry.stride),
                "pad": ints(geometry.pad),
                "dilation": ints(geometry.dilation),
                "groups": integer(geometry.groups),
                "transposed": UnitAttr() if geometry.transposed else None,
                "channels_last": UnitAttr() if geometry.channels_last else None,
            },
            regions=[body],
        )

    @property
    def geometry(self) -> Geometry:
        numbers = (self.stride, self.pad, self.dilation)
        stride, pad, dilation = (n.get_values() for n in numbers)
        flags = (self.transposed is not None, self.channels_last is not None)
        return Geometry(stride, pad, dilation, self.groups.value.data, *flags)

    @property
    def channel_axis(self) -> int:
        """The axis of the space that counts channels."""
        return 1 if self.channels_last is None else len(self.extents) - 1

    @property
    def is_reduced(self) -> bool:
        """Whether channels of the result are reduced."""
        return any(isinstance(op, RowReduceOp) for op in self.nodes)

    @property
    def pool(self) -> PooledSumsOp | None:
        """The node that pools results; None where none does."""
        return next((op for op in self.nodes if isinstance(op, PooledSumsOp)), None)

    @property
    def moments(self) -> StoreMomentsOp | None:
        """The node that stores moments of channels; None where none does."""
        return next((op for op in self.nodes if isinstance(op, StoreMomentsOp)), None)

    @property
    def outputs(self) -> Dim:
        """The channels of the result."""
        return self.extents[self.channel_axis]

    @property
    def places(self) -> Dims:
        """The extents of the result along its spatial axes."""
        return tuple(d for axis, d in enumerate(self.extents) if axis not in (0, self.channel_axis))

    @property
    def x_dims(self) -> Dims:
        """The extents of x, with leading axes of extent 1 that views leave out."""
        return self._whole(self.x)

    @property
    def w_dims(self) -> Dims:
        """The extents of the weights, with leading axes of extent 1 that views leave out."""
        return self._whole(self.w)

    def _whole(self, value: SSAValue) -> Dims:
        dims = Shaped.of(value.type).dims
        return (*(1,) * (len(self.extents) - len(dims)), *dims)

    @property
    def windows(self) -> list[Window]:
        """The window along each spatial axis."""
        sizes = [int(d) for d in self.w_dims[2:]]
        return window_rules.windows(sizes, *self.geometry[:3])

    def verify_(self) -> None:
        known = (ConvolvedOp, RowReduceOp, PooledSumsOp, StoreOp, RowStoreOp, StoreMomentsOp)
        self.verify_nodes((*READS, *known))
        if (count := sum(isinstance(op, ConvolvedOp) for op in self.nodes)) != 1:
            raise VerifyException(f"a {self.name} has one {ConvolvedOp.name}, not {count}")
        spatial = len(self.extents) - 2
        if any(len(numbers) != spatial for numbers in self.geometry[:3]):
            raise VerifyException(f"a {self.name} over {spatial} spatial axes needs {spatial} windows")
