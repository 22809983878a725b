"""Ways to compute a convolution: when each is legal, and how long it should take.

Times are of the target's first card. They rank strategies; they leave out launches, and what both have alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from mucc.kernels.conv.layer import Layer, layer_of_kernel
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.tiles import ROWS, STAGE_ROW, tile_of
from mucc.kernels.conv.wide import best_tile, wide_cycles
from mucc.target import WARPGROUPS
from mucc.target.facts import Facts

LANES = 128
"""Instructions of threads that a multiprocessor issues in a cycle."""
GATHERED = 16
"""Instructions for an element that a thread finds and loads by itself (counted in the code for sm_90a)."""
COPIED_SHARE = 0.5
"""What `tiles` reaches of the rate of mma.sync where x is whole pieces: 0.4 to 0.55 on an H200."""
SUMMED = 3
"""Instructions for a multiply-add of `direct`, with its share of loads and addresses (likewise)."""

FORMATS = ("bf16", "f16", "tf32")
"""The formats that warpgroups multiply."""

MOST_CLASSES = 16
"""The most classes of outputs of a transposed convolution, which have a map of x each."""


class Way(ABC):
    """A strategy with its legality rule and its cost."""

    strategy: ClassVar[Strategy]

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        """Return why the strategy is not legal, as a clause; None if it is."""
        return None

    def manner(self, layer: Layer, facts: Facts) -> str:
        """Say what the strategy chooses besides, as words in brackets; none by default."""
        return ""

    @abstractmethod
    def cycles(self, layer: Layer, facts: Facts) -> float:
        """Estimate the cycles that one multiprocessor would take alone."""


class Tiles(Way):
    """As a product of matrices: whole tiles are computed, whatever part of them the groups fill."""

    strategy = Strategy.TILES

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        tile = tile_of(layer.outputs, layer.whole, facts.limits.shared_memory)
        return "a block has too little shared memory for two stages" if tile.stages < 2 else None

    def cycles(self, layer: Layer, facts: Facts) -> float:
        tile = tile_of(layer.outputs, layer.whole, facts.limits.shared_memory)
        sm, compute = facts.multiprocessor, layer.compute
        depth = _padded(layer.channels * layer.taps, STAGE_ROW // layer.element_bytes)
        blocks = layer.groups * math.ceil(layer.rows / ROWS) * math.ceil(layer.outputs / tile.columns)
        elements = blocks * ROWS * depth
        rate = sm.flops_per_cycle(compute) * (1.0 if compute == "f32" else sm.mma_sync_share)
        if compute in FORMATS and layer.whole:
            rate *= COPIED_SHARE
        found = 0.0 if layer.whole else elements * GATHERED / LANES
        return 2 * elements * tile.columns / rate + found


class Warpgroups(Way):
    """As a product of matrices that warpgroups multiply, from tiles that the copy engine loads.

    Calls whose tensors it cannot map are computed as by `Tiles`.
    """

    strategy = Strategy.WARPGROUPS

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if facts.name not in WARPGROUPS:
            return f"{facts.name} has no wgmma"
        if layer.compute not in FORMATS:
            return f"wgmma multiplies {', '.join(FORMATS)}"
        if not layer.whole:
            return "the channels of a group are not whole pieces of 16 bytes"
        if layer.groups > 1 and layer.channels % (STAGE_ROW // layer.element_bytes):
            return f"the channels of a group are not whole pieces of {STAGE_ROW} bytes"
        if layer.classes > MOST_CLASSES:
            return f"there are more than {MOST_CLASSES} classes of outputs"
        return Tiles().refused(layer, facts)

    def manner(self, layer: Layer, facts: Facts) -> str:
        return best_tile(layer, facts).text

    def cycles(self, layer: Layer, facts: Facts) -> float:
        return wide_cycles(best_tile(layer, facts), layer, facts)


class Direct(Way):
    """Multiply-adds of single outputs, and nothing else."""

    strategy = Strategy.DIRECT

    def cycles(self, layer: Layer, facts: Facts) -> float:
        sums = layer.groups * layer.outputs * layer.rows
        return sums * layer.channels * layer.taps * SUMMED / LANES


WAYS: tuple[Way, ...] = (Warpgroups(), Tiles(), Direct())


def _padded(extent: float, multiple: int) -> int:
    return math.ceil(extent / multiple) * multiple


def seconds(way: Way, layer: Layer, facts: Facts) -> float:
    """Estimate the time of a strategy on the target's first card, no less than memory takes."""
    card = facts.devices[0]
    computing = way.cycles(layer, facts) / card.multiprocessors / card.clock(facts.multiprocessor)
    return max(computing, layer.moved / card.datasheet["dram_bandwidth"])


def choose(layer: Layer, facts: Facts) -> Strategy:
    """Return the legal strategy that should be fastest, of equal ones the first."""
    legal = [way for way in WAYS if way.refused(layer, facts) is None]
    return min(legal, key=lambda way: seconds(way, layer, facts)).strategy


def reasons(op: ConvKernelOp, facts: Facts, sizes: Mapping[str, int]) -> list[str]:
    """Say what each strategy would take for a kernel's convolution, the chosen one first."""
    layer = layer_of_kernel(op, sizes)
    lines: list[str] = []
    for way in sorted(WAYS, key=lambda way: way.strategy is not op.strategy.data):
        refused = way.refused(layer, facts)
        time = refused or f"{seconds(way, layer, facts) * 1e6:.1f} us expected"
        if not refused and (manner := way.manner(layer, facts)):
            time += f" ({manner})"
        chosen = "    (chosen)" if way.strategy is op.strategy.data else ""
        lines.append(f"{way.strategy.value:<10} {time}{chosen}")
    return lines
