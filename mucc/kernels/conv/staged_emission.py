"""C++ of convolutions whose blocks stage factors of wgmma (`StagedShape` in mucc/conv.h)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

from mucc.codegen.texts import Entry
from mucc.codegen.wgmma import wgmma
from mucc.kernels.conv.emission import flag
from mucc.kernels.conv.layer import Layer, layer_of_kernel
from mucc.kernels.conv.tiles_emission import TilesWork
from mucc.kernels.conv.wide import WideTile
from mucc.target import get_target
from mucc.target.facts import Facts

BOUNDS = "Op::Wide::kAllThreads, Op::Wide::kResident"
"""The launch bounds of such kernels."""


class StagedWork(TilesWork, ABC):
    """The text of such a kernel, and of those of mucc/conv.cuh for other calls."""

    SHAPE: ClassVar[str]
    """The struct of mucc/conv.h with the constants of a tile."""
    LEFT_TURNED: ClassVar[bool]
    """Whether the left factor has its rows innermost, and K outermost."""
    TURNED: ClassVar[bool] = False
    """Whether the right factor has its columns innermost, and K outermost."""

    @abstractmethod
    def best(self, layer: Layer, facts: Facts) -> WideTile:
        """Return the tile for a layer."""

    @abstractmethod
    def mapped(self, entry: str) -> list[Entry]:
        """Return the kernels that read by TMA, in the order in which the launcher has them."""

    @cached_property
    def tile(self) -> WideTile:
        """The tile of the kernel."""
        facts = get_target(self.places.program.target.data).facts
        return self.best(layer_of_kernel(self.conv, {}), facts)

    @property
    def more_constants(self) -> list[str]:
        rows, columns, stages, resident, shares, is_persistent = self.tile
        flags = f"{flag(is_persistent)}, {flag(self.along_channels)}"
        shape = f"{rows}, {columns}, {stages}, {resident}, {shares}, {flags}"
        return [f"using Wide = mucc::conv::{self.SHAPE}<{shape}>;"]

    @property
    def work(self) -> list[str]:
        dtype, columns = self.conv.compute.data.value, self.tile.columns
        turned, left_turned = self.TURNED, self.LEFT_TURNED
        multiply = wgmma(
            "multiply", dtype, columns, from_registers=False, turned=turned, left_turned=left_turned
        )
        return [*super().work, *multiply]

    def entries(self, entry: str) -> list[Entry]:
        return [*super().entries(entry), *self.mapped(entry)]
