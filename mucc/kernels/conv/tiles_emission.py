"""C++ of convolutions as products of matrices, tile by tile (mucc/conv.cuh)."""

from __future__ import annotations

from typing import ClassVar

from mucc.codegen.memory import ONE, Product
from mucc.codegen.pointwise import Parts
from mucc.codegen.texts import Entry, Texts
from mucc.kernels.conv.emission import ConvWork, flag
from mucc.kernels.conv.tiles import tile_of
from mucc.target import get_target

_FORMATS = {
    "bf16": "Bf16",
    "f16": "F16",
    "tf32": "Tf32",
    "tf32x3": "Tf32x3",
    "f32": "F32",
    "e4m3": "E4m3",
    "s8": "S8",
}

_GIVEN = "Work const op, mucc::conv::Problem<Op::Element> const problem"
"""The parameters of a kernel, but for tensor maps."""

BOUNDS = "Op::kThreads, 2"
"""Launch bounds: two blocks of a multiprocessor hide each other's waits."""


class TilesWork(ConvWork):
    """The text of a kernel of mucc/conv.cuh."""

    HEADER: ClassVar[str] = "mucc/conv.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_tiles"

    @property
    def channels_inner(self) -> bool:
        """Whether channels are innermost along K, instead of taps."""
        return self.x.strides[1].is_one or self.w_channel.is_one or self.geometry.transposed

    @property
    def whole_channels(self) -> bool:
        """Whether the channels of a group are whole pieces."""
        return self.channels > 0 and self.channels % self.piece == 0

    @property
    def vector_x(self) -> bool:
        return self.x.strides[1].is_one and self.whole_channels

    @property
    def vector_w(self) -> bool:
        """Whether weights can be copied in pieces along K."""
        if self.channels_inner:
            return self.w_channel.is_one and self.whole_channels
        step = ONE
        for window, stride in zip(reversed(self.windows), reversed(self.w.spatial), strict=True):
            if window.size > 1 and stride != step:
                return False
            step = step * Product(window.size)
        taps = step.factor
        contiguous = self.w_channel == step or self.channels == 1
        return contiguous and self.channels * taps % self.piece == 0 and self.channels > 0

    @property
    def holds(self) -> bool:
        """Whether elements are held while a stage is multiplied: each takes a register, also of a byte."""
        return not self.vector_x and self.piece <= 8

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        along = self.along_channels
        rank = len(self.space)
        target = get_target(self.places.program.target.data)
        room, reduced = target.facts.limits.shared_memory, self.conv.is_reduced
        m, n, threads, stages = tile_of(self.produced, self.vector_x, room, reduced)
        shape = f"{m}, {n}, {threads}, {stages}, {flag(along)}"
        return self.assemble(
            Parts(
                fast=self.fast,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {threads};",
                    f"static constexpr bool kChannelsInner = {flag(self.channels_inner)};",
                    f"static constexpr bool kVectorX = {flag(self.vector_x)}, "
                    f"kVectorW = {flag(self.vector_w)};",
                    f"static constexpr bool kHolds = {flag(self.holds)};",
                    *self.constants,
                    f"using Format = mucc::conv::{_FORMATS[self.conv.compute.data.value]};",
                    f"using Shape = mucc::conv::TileShape<{shape}>;",
                    *self.more_constants,
                ],
                work=self.work,
                entries=self.entries(entry),
                launcher=self.LAUNCHER,
                arguments=[self.problem],
            )
        )

    @property
    def more_constants(self) -> list[str]:
        """The members of `Op` that only a subclass has."""
        return []

    def mapped_entries(self, entry: str, function: str, maps: str, bounds: str) -> list[Entry]:
        """Return the kernels of a function of mucc::conv that takes tensor maps: by elements, by vectors."""
        return [
            Entry(
                f"{entry}_{function}{name}",
                f"{_GIVEN}, __grid_constant__ mucc::conv::{maps} const maps",
                f"mucc::conv::{function}<{lanes}>(op, problem, maps)",
                bounds,
            )
            for name, lanes in (("", "1"), ("_vector", "Op::kVector"))
        ]

    def entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `launch_tiles`."""
        fast = f"{flag(self.vector_x)}, {flag(self.vector_w)}"
        ways = [("", "false, false, 1")]
        if self.vector_x or self.vector_w:
            ways.append(("_copied", f"{fast}, 1"))
        ways.append(("_vector", f"{fast}, Op::kVector"))
        return [
            Entry(f"{entry}_tiles{name}", _GIVEN, f"mucc::conv::tiles<{flags}>(op, problem)", BOUNDS)
            for name, flags in ways
        ]
