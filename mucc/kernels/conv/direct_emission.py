"""C++ of convolutions whose threads sum up a few outputs each (mucc/conv_direct.cuh)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.codegen.memory import Product
from mucc.codegen.pointwise import THREADS, Parts
from mucc.codegen.texts import Entry, Texts
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.emission import ConvWork, flag
from mucc.kernels.conv.strips import VECTORS, Strip, StripTile, best_strip
from mucc.target import get_target
from mucc.target.facts import WIDEST_ACCESS, Facts

LINE = 4
"""Outputs of a thread along the last axis, where x is read by vectors: `kWide` of mucc/conv_direct.cuh."""

MOST_TAPS, FEW_TAPS = 49, 21
"""The most taps of a plane that leave registers for anything else, and for a long run."""

LONG_RUN = 8

HELD = 104
"""The most numbers that a thread holds: with more of them few threads run at the same time."""

RUN = 4
"""Outputs of a thread along the second spatial axis."""

MOST_SPANNED = 128
"""The most elements of x along an axis that one thread reads for its outputs: these loops are unrolled."""


def spanned(window: Window, outputs: int) -> int:
    """Return how many elements so many neighbouring outputs span, with those between that none reads."""
    return (outputs - 1) * window.stride + window.reach


class DirectWork(ConvWork):
    """The text of a kernel of mucc/conv_direct.cuh."""

    HEADER: ClassVar[str] = "mucc/conv_direct.cuh"

    @property
    def run(self) -> int:
        """Outputs of a thread, which share rows of x."""
        rows = self.conv.places[-2] if len(self.space) > 3 else 1
        if self.geometry.transposed or rows == 1 or self.windows[1].size == 1:
            return 1
        return RUN if spanned(self.windows[1], RUN) <= MOST_SPANNED else 1

    @property
    def has_lines(self) -> bool:
        """Whether x may be read by vectors along the last axis, where neighbouring results lie."""
        extent, window = self.conv.x_dims[-1], self.windows[-1]
        aligned = not (isinstance(extent, int) and extent % LINE)
        adjacent = self.x.spatial[-1].is_one and not self.along_channels and self.fast == len(self.space) - 1
        small = window.size * self.windows[1].size <= MOST_TAPS and window.dilation * window.size <= MOST_TAPS
        spans = spanned(window, LINE), spanned(self.windows[1], self.line_run)
        small = small and max(spans) <= MOST_SPANNED
        return adjacent and aligned and small and not self.geometry.transposed

    @property
    def line_run(self) -> int:
        """Rows of a thread that reads lines, of which it has LINE outputs each."""
        rows = self.conv.places[-2] if len(self.space) > 3 else 1
        size = self.windows[1].size
        if rows == 1:
            return 1
        return LONG_RUN if size > 1 and size * self.windows[2].size <= FEW_TAPS else RUN

    @property
    def widest(self) -> int:
        widest = super().widest
        if self.has_lines:
            return min(widest, LINE)
        if self.strip is not None:
            return widest
        window = self.windows[1]
        if window.stride > 1 and window.size > 3:
            return widest  # 5x5 of stride 2 takes 0.049 ms so, and 0.096 with half as wide vectors (H100)
        while self.has_vectors and widest > 1 and widest * self.held > HELD:
            widest //= 2
        return widest

    @property
    def held(self) -> int:
        """Weights, elements of x and sums that a thread has at the same time, for each of its channels."""
        window = self.windows[1]
        read = window.size if self.run == 1 else spanned(window, self.run)
        return window.size + read + self.run

    @property
    def has_vectors(self) -> bool:
        """Whether channels are groups of their own, adjacent in all tensors."""
        adjacent = self.x.strides[1].is_one and self.w.strides[0].is_one and self.along_channels
        return adjacent and self.channels == self.produced == 1

    @cached_property
    def strip(self) -> StripTile | None:
        """The tile of blocks that have strips of outputs; None where there are none."""
        adjacent = self.x.strides[1].is_one and self.along_channels
        if not adjacent or super().widest < max(VECTORS) or self.geometry.transposed:
            return None
        if any(output.memory.type.dtype not in ("bf16", "f16", "f32") for output in self.outputs):
            return None
        channels, groups, outputs = self.conv.x_dims[1], self.geometry.groups, self.conv.outputs
        if not channels == outputs == groups:
            return None
        batch, places, windows = self.conv.extents[0], self.conv.places, self.conv.windows
        return best_strip(groups, batch, places, windows, WIDEST_ACCESS // self.piece, self.facts)

    @property
    def facts(self) -> Facts:
        return get_target(self.places.program.target.data).facts

    def compiles_in(self, stride: Product) -> bool:
        return True

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        along, rank = self.along_channels, len(self.space)
        strips = [f"static constexpr bool kStrips = {flag(self.strip is not None)};"]
        if (tile := self.strip) is not None:
            step = self.x.strides[-1]
            strips.append(f"using Strips = mucc::conv::StripTile<{tile.text()}>;")
            strips.append(f"static constexpr int64_t kStep = {0 if step.names else step.factor};")
        return self.assemble(
            Parts(
                fast=self.fast,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};",
                    f"static constexpr int kRun = {self.run}, kLineRun = {self.line_run};",
                    f"static constexpr bool kAlongChannels = {flag(along)}, "
                    f"kVectors = {flag(self.has_vectors)}, kLines = {flag(self.has_lines)};",
                    *strips,
                    *self.constants,
                ],
                work=self.work,
                entries=self._entries(entry),
                launcher="conv::launch_direct",
                arguments=[self.problem],
            )
        )

    def _entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `launch_direct`."""
        given = "Work const op, mucc::conv::Problem<Op::Element> const problem"
        ways = [("direct", "direct<1>")]
        if self.has_lines:
            ways += [("lines", "lines<1>"), ("lines_vector", "lines<Op::kVector>")]
        if self.has_vectors:
            ways.append(("direct_vector", "direct<Op::kVector>"))
        entries = [
            Entry(f"{entry}_{name}", given, f"mucc::conv::{function}(op, problem)") for name, function in ways
        ]
        if self.strip is not None:
            text = "mucc::conv::strips(op, problem)"
            strip = Strip(self.strip, self.conv.windows, WIDEST_ACCESS // self.piece)
            blocks = strip.blocks(self.facts)
            entries.append(Entry(f"{entry}_strips", given, text, f"Op::Strips::kThreads, {blocks}"))
        return entries
