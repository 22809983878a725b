"""C++ that all convolution kernels share: tensors, windows, pointwise work."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from xdsl.ir import Operation, SSAValue

from mucc.codegen.across import AcrossWork
from mucc.codegen.memory import ONE, VIEW_TYPES, ZERO, Places, Product
from mucc.codegen.names import words
from mucc.codegen.pointwise import Operand as PointwiseOperand
from mucc.codegen.pointwise import Parts
from mucc.codegen.reductions import reduction
from mucc.codegen.texts import Texts
from mucc.dialects.cutlass.nodes import StoreNode
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.pooling_kinds import Pooling
from mucc.dialects.mu.types import Dims, Shaped, dtype_bytes
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.op import ConvKernelOp, ConvolvedOp, PooledSumsOp, StoreMomentsOp
from mucc.kernels.conv.results_emission import results_text
from mucc.kernels.normalize.op import RowStoreOp
from mucc.kernels.normalize.rows import phases_of, row_output
from mucc.library.extents import multiply, quotient
from mucc.target.facts import WIDEST_ACCESS

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

    members = words(
        """
        kReduces reduce channels sums team Sums Team Results results write Pool PoolKind PatchShape before
        after pooled sum kPooledBytes Filled filled at next held one q k c kMoments measured
        kStrips Strips kStep PerChannel per_channel of_channels kFetches fetch step
        """
    )

    def __init__(self, op: ConvKernelOp, places: Places):
        self.conv = op
        self.geometry = op.geometry
        self.x = Operand(places, op.x, op.x_dims)
        self.w = Operand(places, op.w, op.w_dims)
        super().__init__(op, op.extents, (), places)

    def compiles_in(self, stride: Product) -> bool:
        # What is the same at all positions of a channel is loaded once for many of them.
        return stride.is_zero

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
        return WIDEST_ACCESS // dtype_bytes(Shaped.of(self.conv.x.type).element_type)

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
        """Whether neighbouring results are those of neighbouring channels.

        Where results are reduced or pooled, neighbouring threads have neighbouring positions.
        """
        return self.stores_sums and self.outputs[0].strides[self.conv.channel_axis].is_one

    @property
    def stores_sums(self) -> bool:
        """Whether results are computed one by one, of one sum each."""
        return not self.conv.is_reduced and self.conv.pool is None

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
        if not self.stores_sums:
            return 1
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
            f"static constexpr bool kReduces = {flag(self.conv.is_reduced)};",
            f"using Pool = mucc::conv::PoolWindow<{', '.join(map(str, self.pool_sizes))}>;",
            f"static constexpr mucc::conv::Moments kMoments = mucc::conv::Moments::{self.moments};",
        ]

    @property
    def moments(self) -> str:
        """The groups of values that blocks store moments of: none, channels of an element or the batch."""
        if (node := self.conv.moments) is None:
            return "kNone"
        return "kEach" if node.across is None else "kAcross"

    @property
    def pool_sizes(self) -> list[int]:
        """The positions of a pool's window along the kernel's three axes: one where nothing is pooled."""
        sizes = () if self.conv.pool is None else self.conv.pool.sizes
        return [1] * (AXES - len(sizes)) + list(sizes)

    # Text

    @abstractmethod
    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""

    def assemble(self, parts: Parts) -> Texts:
        """Emit the kernel, whose bodies are spliced into it where each is computed once for each result."""
        spliced = [body.name for body in self.bodies] if self.stores_sums else ()
        return super().assemble(replace(parts, spliced=spliced, straight=True, alone=True))

    @property
    def work(self) -> list[str]:
        (convolved,) = (node.result for node in self.op.nodes if isinstance(node, ConvolvedOp))
        if self.conv.is_reduced:
            return self._reducing(self.lanes[convolved])
        if self.conv.pool is not None:
            return self._pooling(self.lanes[convolved], self.conv.pool)
        return results_text(self, convolved)

    def node(self, node: Operation) -> None:
        if isinstance(node, RowStoreOp):
            self.store(node, row_output(self, node))
            self.lines[node] = ""
            return
        if isinstance(node, StoreMomentsOp):
            self.lines[node] = ""
            return
        super().node(node)

    def _reducing(self, convolved: str) -> list[str]:
        """Return the C++ that computes all results of a position, from sums of its channels."""
        stores = list(zip(self.op.stores, self.outputs, self.results, strict=True))
        lines: list[str] = []
        for phase in phases_of(self):
            kinds = [reduction(op.kind.data, op.value) for op in phase]
            names = [self.lanes[op.result] for op in phase]
            lines += [f"    float {n}_sum = {kind}::identity;" for n, kind in zip(names, kinds, strict=True)]
            taken = [
                f"      {n}_sum = {kind}::combine({n}_sum, {kind}::first({self.lanes[op.value]}.of[0]));"
                for n, kind, op in zip(names, kinds, phase, strict=True)
            ]
            lines += self._channels(convolved, [op.value for op in phase], taken)
            lines += [
                f"    mucc::Lanes<1> const {n}(team.template combine<{kind}>({n}_sum));"
                for n, kind in zip(names, kinds, strict=True)
            ]
        full = [(node, out, value) for node, out, value in stores if not isinstance(node, RowStoreOp)]
        if full:
            lines += self._filling(convolved, full)
        ends = [(node, out, value) for node, out, value in stores if isinstance(node, RowStoreOp)]
        if ends:
            lines += ["    if (team.own != 0 || channels == 0) return;", "    p.at[kChannelAxis] = 0;"]
            lines += self.statements_for([node.value for node, _, _ in ends])
            lines += [f"    mucc::store({out.member}, p, {value});" for _, out, value in ends]
        return [
            "  template <class P, class Sums, class Team>",
            "  MUCC_DEVICE void reduce(P p, int channels, Sums const& sums, Team const& team) const {",
            "    constexpr int V = 1;",
            *lines,
            "  }",
        ]

    def _pooling(self, convolved: str, pool: PooledSumsOp) -> list[str]:
        """Return the C++ that computes what is pooled of a sum, and results of what is pooled."""
        is_max, name = pool.kind.data is Pooling.MAX, self.lanes[pool.result]
        scale = "" if is_max else f" * {1 / math.prod(pool.sizes)!r}f"
        return [
            f"  using PoolKind = mucc::{'Max' if is_max else 'Sum'};",
            "  template <class P>",
            "  MUCC_DEVICE float before(P const& p, float sum) const {",
            "    constexpr int V = 1;",
            f"    mucc::Lanes<1> const {convolved}(sum);",
            *self.statements_for([pool.value]),
            f"    return {self.lanes[pool.value]}.of[0];",
            "  }",
            "  template <class P>",
            "  MUCC_DEVICE void after(P const& p, float pooled) const {",
            "    constexpr int V = 1;",
            f"    mucc::Lanes<1> const {name}(pooled{scale});",
            *self.storing,
            "  }",
        ]

    def _filling(
        self, convolved: str, stores: Sequence[tuple[StoreNode, PointwiseOperand, str]]
    ) -> list[str]:
        """Return the C++ that computes an element for each channel, and stores those of four together.

        A load is not moved before a store that might write what it reads.
        """
        names = [f"of{i}" for i in range(len(stores))]
        written = [
            f"mucc::store({out.member}, q, {{}}.{n});" for n, (_, out, _) in zip(names, stores, strict=True)
        ]
        return [
            f"    struct Filled {{ mucc::Lanes<1> {', '.join(names)}; }};",
            "    auto at = [&](int c) { P q = p; q.at[kChannelAxis] = c; return q; };",
            "    auto filled = [&](P const& p, float sum) {",
            f"      mucc::Lanes<1> const {convolved}(sum);",
            *(f"  {line}" for line in self.statements_for([node.value for node, _, _ in stores])),
            f"      return Filled{{{', '.join(value for _, _, value in stores)}}};",
            "    };",
            "    int next = team.own;",
            "    for (; next + 3 * Team::kSize < channels; next += 4 * Team::kSize) {",
            "      Filled held[4];",
            "#pragma unroll",
            "      for (int k = 0; k < 4; ++k) {",
            "        int const c = next + k * Team::kSize;",
            "        held[k] = filled(at(c), sums[c]);",
            "      }",
            "#pragma unroll",
            "      for (int k = 0; k < 4; ++k) {",
            "        P const q = at(next + k * Team::kSize);",
            *(f"        {line.format('held[k]')}" for line in written),
            "      }",
            "    }",
            "    for (; next < channels; next += Team::kSize) {",
            "      P const q = at(next);",
            "      Filled const one = filled(q, sums[next]);",
            *(f"      {line.format('one')}" for line in written),
            "    }",
        ]

    def _channels(self, convolved: str, wanted: Sequence[SSAValue], behind: Sequence[str]) -> list[str]:
        """Return a loop over channels that computes `wanted`, with what is `behind` it."""
        return [
            "#pragma unroll 4",
            "    for (int c = team.own; c < channels; c += Team::kSize) {",
            "      p.at[kChannelAxis] = c;",
            f"      mucc::Lanes<1> const {convolved}(sums[c]);",
            *(f"  {line}" for line in self.statements_for(wanted)),
            *behind,
            "    }",
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
        low, count = self.present()
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
        if (node := self.conv.moments) is not None:
            dims = Shaped.of(node.destination.type).dims
            memory, _ = self.places.view(node.destination, dims)
            values += [memory.data("float"), str(self._cells(dims))]
        return f"{{{', '.join(values)}}}"

    def _cells(self, dims: Dims) -> Product:
        """Return the cells of a channel, given the extents of moments."""
        node, outputs = self.conv.moments, self.conv.outputs
        assert node is not None and isinstance(outputs, int)
        rows = [outputs] if node.across is not None else [self.conv.extents[0], outputs]
        found = quotient(multiply(dims[1:]), multiply(rows))
        if found is not None:
            return Product(found)
        batch = self.conv.extents[0]
        assert isinstance(batch, str)
        found = quotient(multiply(dims[1:]), multiply([batch, *rows]))
        assert found is not None
        return self.places.extent(multiply([batch, found]))

    def _group(self, dim: int | str) -> Product:
        groups = self.geometry.groups
        return self.places.extent(dim // groups if isinstance(dim, int) else dim)

    def present(self) -> tuple[list[Product], list[Product]]:
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
