"""C++ of convolutions whose threads sum up a few outputs each (mucc/conv_direct.cuh)."""

from __future__ import annotations

from typing import ClassVar

from mucc.codegen.pointwise import THREADS, Parts
from mucc.codegen.texts import Entry, Texts
from mucc.kernels.conv.emission import ConvWork, flag

RUN = 4
"""Outputs of a thread along the second spatial axis."""


class DirectWork(ConvWork):
    """The text of a kernel of mucc/conv_direct.cuh."""

    HEADER: ClassVar[str] = "mucc/conv_direct.cuh"

    @property
    def run(self) -> int:
        """Outputs of a thread, which share rows of x."""
        rows = self.conv.places[-2] if len(self.space) > 3 else 1
        return 1 if self.geometry.transposed or rows == 1 or self.windows[1].size == 1 else RUN

    @property
    def has_vectors(self) -> bool:
        """Whether channels are groups of their own, adjacent in all tensors."""
        adjacent = self.x.strides[1].is_one and self.w.strides[0].is_one and self.along_channels
        return adjacent and self.channels == self.produced == 1

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        along, rank = self.along_channels, len(self.space)
        return self.assemble(
            Parts(
                fast=self.fast,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};",
                    f"static constexpr int kRun = {self.run};",
                    f"static constexpr bool kAlongChannels = {flag(along)}, "
                    f"kVectors = {flag(self.has_vectors)};",
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
        ways = [("", "1"), ("_vector", "Op::kVector")][: 1 + self.has_vectors]
        return [
            Entry(f"{entry}_direct{name}", given, f"mucc::conv::direct<{lanes}>(op, problem)")
            for name, lanes in ways
        ]
