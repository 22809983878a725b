"""C++ of convolutions that read their taps from a patch of x in shared memory (mucc/conv_patches.cuh)."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from mucc.codegen.pointwise import Parts
from mucc.codegen.texts import Entry, Texts
from mucc.kernels.conv.emission import ConvWork, flag
from mucc.kernels.conv.layer import layer_of_kernel
from mucc.kernels.conv.patches import PatchTile, best_patch
from mucc.target import get_target


class PatchesWork(ConvWork):
    """The text of a kernel of mucc/conv_patches.cuh."""

    HEADER: ClassVar[str] = "mucc/conv_patches.cuh"

    @cached_property
    def tile(self) -> PatchTile:
        """The tile of the kernel."""
        facts = get_target(self.places.program.target.data).facts
        layer = layer_of_kernel(self.conv, {})._replace(vectors=self.vector_x)
        tile = best_patch(layer, facts, along=self.along_channels)
        assert tile is not None, "the strategy is legal"
        return tile

    @property
    def vector_x(self) -> bool:
        """Whether neighbours of x along the last axis may be read four at a time."""
        extent = self.conv.x_dims[-1]
        return self.x.spatial[-1].is_one and not (isinstance(extent, int) and extent % 4)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        tile, along = self.tile, flag(self.along_channels)
        numbers = ", ".join(map(str, (*tile.places, tile.columns, tile.warps, tile.chunk, tile.panel)))
        flags = f"{flag(tile.is_resident)}, {flag(tile.is_whole)}, {along}"
        return self.assemble(
            Parts(
                fast=self.fast,
                constants=[
                    f"static constexpr int kRank = {len(self.space)}, kVector = {self.widest};",
                    f"static constexpr int kTogether = {tile.together};",
                    f"static constexpr bool kVectorX = {flag(self.vector_x)}, "
                    f"kChannelsInner = {flag(self.x.strides[1].is_one)};",
                    f"static constexpr bool kAlongChannels = {along};",
                    *self.constants,
                    f"using Patches = mucc::conv::PatchTile<{numbers}, {flags}>;",
                    f"static constexpr int kPooledBytes = {tile.pooled};",
                    "using PatchShape = mucc::conv::PatchShape<Windows, Patches>;",
                    f"static_assert(PatchShape::kShared + kPooledBytes == {tile.shared},",
                    '              "as many bytes as the compiler counted");',
                ],
                work=self.work,
                entries=self._entries(entry),
                launcher="conv::launch_patches",
                arguments=[self.problem],
            )
        )

    def _entries(self, entry: str) -> list[Entry]:
        """Return the kernels in the order of `launch_patches`."""
        given = "Work const op, mucc::conv::Problem<Op::Element> const problem"
        ways = [("", "false, 1")]
        if self.vector_x:
            ways.append(("_lines", "true, 1"))
        ways.append(("_vector", f"{flag(self.vector_x)}, Op::kVector"))
        bounds = "Op::Patches::kThreads, Op::kTogether"
        return [
            Entry(f"{entry}_patches{name}", given, f"mucc::conv::patches<{flags}>(op, problem)", bounds)
            for name, flags in ways
        ]
