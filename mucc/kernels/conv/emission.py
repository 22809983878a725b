"""What the C++ of all convolution kernels has in common: tensors, windows, the pointwise work."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from xdsl.ir import SSAValue

from mucc.codegen.across import AcrossWork
from mucc.codegen.memory import ONE, VIEW_TYPES, ZERO, Places, Product
from mucc.codegen.texts import Texts
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.types import Dims
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.op import ConvKernelOp, ConvolvedOp

AXES = 3
"""The spatial axes that kernels have; those that a program lacks are of extent 1."""


class Operand:
    """x or the weights in memory: strides along channels and spatial axes, as the kernels count them."""

    def __init__(self, places: Places, value: SSAValue, dims: Dims):
        self.memory, axes = places.view(value, dims)
        self.dims = dims
        self.strides = [ZERO if a.extent == 1 else a.stride for a in axes]
        self.element = VIEW_TYPES[self.memory.type.dtype]

    @property
    def spatial(self) -> list[Product]:
        strides = self.strides[2:]
        return [ZERO] * (AXES - len(strides)) + strides

    @property
    def data(self) -> str:
        return self.memory.data(self.element)


class ConvWork(AcrossWork):
    """The C++ of a convolution kernel: the convolution, and the pointwise work behind it.

    Subclasses say how outputs are summed up.
    """

    HEADER: ClassVar[str]
    """The header with the kernel."""

    def __init__(self, op: ConvKernelOp, places: Places):
        self.conv = op
        self.geometry = op.geometry
        self.x = Operand(places, op.x, op.x_dims)
        self.w = Operand(places, op.w, op.w_dims)
        super().__init__(op, op.extents, (), places)

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        """The axes of the space, of which none are merged."""
        return [[axis] for axis in range(len(self.space))]

    # Facts that are compiled in

    @property
    def channels(self) -> int:
        """The channels of x in a group, 0 where a call decides."""
        channels = self.conv.x_dims[1]
        return channels // self.geometry.groups if isinstance(channels, int) else 0

    @property
    def produced(self) -> int:
        """The channels of the result in a group, 0 where a call decides."""
        outputs = self.conv.outputs
        return outputs // self.geometry.groups if isinstance(outputs, int) else 0

    @cached_property
    def windows(self) -> list[Window]:
        """The windows of the kernel's three axes."""
        windows = self.conv.windows
        return [Window(1)] * (AXES - len(windows)) + windows

    @property
    def piece(self) -> int:
        """Elements in 16 bytes."""
        return 8 if self.x.element != "float" else 4

    @property
    def w_channel(self) -> Product:
        """The stride of the weights along the channels of x."""
        return self.w.strides[0 if self.geometry.transposed else 1]

    @property
    def w_output(self) -> Product:
        """The stride of the weights along the channels of the result."""
        return self.w.strides[1 if self.geometry.transposed else 0]

    @property
    def along_channels(self) -> bool:
        """Whether neighbouring results are those of neighbouring channels."""
        return self.outputs[0].strides[self.conv.channel_axis].is_one

    @property
    def fast(self) -> int:
        """The axis of the space along which neighbouring threads have neighbouring results."""
        if self.along_channels or self.conv.channel_axis == 1:
            return self.conv.channel_axis if self.along_channels else len(self.space) - 1
        return len(self.space) - 2

    @property
    def widest(self) -> int:
        """The results of a vector, as many as divide those that lie next to each other."""
        extent = self.space[self.fast]
        return math.gcd(super().widest, extent) if isinstance(extent, int) else super().widest

    @property
    def constants(self) -> list[str]:
        """The members of `Op` that all convolution kernels have."""
        windows = ", ".join(
            f"mucc::conv::Window<{w.size}, {w.stride}, {w.pad}, {w.dilation}>" for w in self.windows
        )
        return [
            f"static constexpr int kChannels = {self.channels}, kOutputs = {self.produced};",
            f"static constexpr int kChannelAxis = {self.conv.channel_axis};",
            f"using Element = {self.x.element};",
            f"using Windows = mucc::conv::Windows<{flag(self.geometry.transposed)}, {windows}>;",
        ]

    # Text

    @abstractmethod
    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""

    @property
    def work(self) -> list[str]:
        (convolved,) = (node.result for node in self.op.nodes if isinstance(node, ConvolvedOp))
        return [
            "  template <int V, class P>",
            f"  MUCC_DEVICE void store(P const& p, mucc::Lanes<V> const& {self.lanes[convolved]}) const {{",
            *self.storing,
            "  }",
        ]

    @property
    def problem(self) -> str:
        """Return the C++ initializer of a `mucc::conv::Problem`."""
        groups = Product(self.geometry.groups)
        channels = self._group(self.conv.x_dims[1])
        outputs = self._group(self.conv.outputs)
        grouped = channels if self.geometry.transposed else outputs
        stride = self.w_channel if self.geometry.transposed else self.w_output
        out = [self.places.extent(d) for d in self.conv.places]
        low, count = self._present()
        values = [
            self.x.data,
            self.w.data,
            str(self.places.extent(self.conv.extents[0])),
            str(groups),
            str(channels),
            str(outputs),
            _braced([ONE] * (AXES - len(out)) + out),
            _braced(low),
            _braced(count),
            str(self.x.strides[0]),
            str(self.x.strides[1]),
            _braced(self.x.spatial),
            str(grouped * stride if self.geometry.groups > 1 else ZERO),
            str(self.w_output),
            str(self.w_channel),
            _braced(self.w.spatial),
        ]
        return f"{{{', '.join(values)}}}"

    def _group(self, dim: int | str) -> Product:
        groups = self.geometry.groups
        return self.places.extent(dim // groups if isinstance(dim, int) else dim)

    def _present(self) -> tuple[list[Product], list[Product]]:
        """Return the indices of x along its spatial axes that have elements: the first ones, and counts."""
        dims = self.conv.x_dims[2:]
        low = [ZERO] * AXES
        count = [ONE] * (AXES - len(dims)) + [self.places.extent(d) for d in dims]
        axes = view_of(self.conv.x).axes
        for window in self.x.memory.windows:
            axis = AXES - len(axes) + axes.index(window.axis)
            low[axis], count[axis] = window.low, window.count
        return low, count


def _braced(products: Sequence[Product]) -> str:
    return f"{{{', '.join(map(str, products))}}}"


def flag(value: bool) -> str:
    """Emit a bool."""
    return str(value).lower()
