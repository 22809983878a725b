"""C++ of convolutions whose tiles warpgroups multiply (mucc/conv_wgmma.cuh)."""

from __future__ import annotations

from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.kernels.conv.layer import Layer
from mucc.kernels.conv.staged_emission import BOUNDS, StagedWork
from mucc.kernels.conv.wide import WideTile, best_tile
from mucc.target.facts import Facts


class WideWork(StagedWork):
    """The text of a kernel of mucc/conv_wgmma.cuh, and of those of mucc/conv.cuh for other calls."""

    HEADER: ClassVar[str] = "mucc/conv_wgmma.cuh"
    LAUNCHER: ClassVar[str] = "conv::launch_warpgroups"
    SHAPE: ClassVar[str] = "WideShape"
    LEFT_TURNED: ClassVar[bool] = False

    def best(self, layer: Layer, facts: Facts) -> WideTile:
        return best_tile(layer, facts)

    def mapped(self, entry: str) -> list[Entry]:
        return self.mapped_entries(entry, "warpgroups", "Maps<Op::Windows::kClasses>", BOUNDS)
