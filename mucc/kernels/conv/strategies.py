"""Ways to compute a convolution: when each is legal, and how long it should take.

Times are of the target's first card. They rank strategies; they leave out launches, and what both have alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.types import Dim, Shaped, dtype_bytes
from mucc.kernels.conv.op import ConvKernelOp, Geometry, Strategy
from mucc.kernels.conv.tiles import ROWS, STAGE_ROW, tile_of
from mucc.kernels.traffic import LARGE
from mucc.library import extents
from mucc.target.facts import WIDEST_ACCESS, Facts

LANES = 128
"""Instructions of threads that a multiprocessor issues in a cycle."""
GATHERED = 16
"""Instructions for an element that a thread finds and loads by itself (counted in the code for sm_90a)."""
SUMMED = 3
"""Instructions for a multiply-add of `direct`, with its share of loads and addresses (likewise)."""


class Layer(NamedTuple):
    """A convolution as strategies judge it; channels are those of one group. Open extents count as large."""

    rows: int
    """Positions of the result, in all batches."""
    channels: int
    outputs: int
    groups: int
    taps: float
    """Taps that an output sees: of a transposed convolution those of its class."""
    compute: str
    element_bytes: int
    whole: bool
    """Whether the channels of a group are known to be whole pieces of 16 bytes."""


class Way(ABC):
    """A strategy with its legality rule and its cost."""

    strategy: ClassVar[Strategy]

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        """Return why the strategy is not legal, as a clause; None if it is."""
        return None

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
        elements = layer.groups * _padded(layer.rows, ROWS) * depth
        tiles = math.ceil(layer.outputs / tile.columns)
        rate = sm.flops_per_cycle(compute) * (1.0 if compute == "f32" else sm.mma_sync_share)
        found = 0.0 if layer.whole else elements * tiles * GATHERED / LANES
        return 2 * elements * tiles * tile.columns / rate + found


class Direct(Way):
    """Multiply-adds of single outputs, and nothing else."""

    strategy = Strategy.DIRECT

    def cycles(self, layer: Layer, facts: Facts) -> float:
        sums = layer.groups * layer.outputs * layer.rows
        return sums * layer.channels * layer.taps * SUMMED / LANES


WAYS: tuple[Way, ...] = (Tiles(), Direct())


def _padded(extent: float, multiple: int) -> int:
    return math.ceil(extent / multiple) * multiple


def _layer(
    x: tuple[Dim, ...],
    w: tuple[Dim, ...],
    result: tuple[Dim, ...],
    geometry: Geometry,
    compute: str,
    element_bytes: int,
    sizes: Mapping[str, int],
) -> Layer:
    def size(dim: Dim) -> int:
        return dim if isinstance(dim, int) else _value(dim, sizes)

    taps = math.prod(int(d) for d in w[2:])
    classes = math.prod(geometry.stride) if geometry.transposed else 1
    channels, outputs = size(x[1]) // geometry.groups, size(result[1]) // geometry.groups
    rows = math.prod(map(size, (result[0], *result[2:])))
    whole = isinstance(x[1], int) and channels % (WIDEST_ACCESS // element_bytes) == 0
    return Layer(rows, channels, outputs, geometry.groups, taps / classes, compute, element_bytes, whole)


def _value(dim: str, sizes: Mapping[str, int]) -> int:
    names = {name for term, _ in extents.polynomial(dim).terms for name in term}
    return max(1, extents.value(dim, {name: sizes.get(name, LARGE) for name in names}))


def layer_of(op: ConvolutionOp, geometry: Geometry) -> Layer:
    """Describe a convolution of the language."""
    element = dtype_bytes(Shaped.of(op.operand.type).element_type)
    x, w = Shaped.of(op.operand.type).dims, Shaped.of(op.weight.type).dims
    return _layer(x, w, op.result_dims, geometry, op.compute.data.value, element, {})


def layer_of_kernel(op: ConvKernelOp, sizes: Mapping[str, int]) -> Layer:
    """Describe the convolution of a kernel, where open dims have `sizes`."""
    element = dtype_bytes(Shaped.of(op.x.type).element_type)
    result = (op.extents[0], op.outputs, *op.places)
    return _layer(op.x_dims, op.w_dims, result, op.geometry, op.compute.data.value, element, sizes)


def seconds(way: Way, layer: Layer, facts: Facts) -> float:
    """Estimate the time of a strategy on the target's first card."""
    card = facts.devices[0]
    return way.cycles(layer, facts) / card.multiprocessors / card.clock(facts.multiprocessor)


def choose(layer: Layer, facts: Facts) -> Strategy:
    """Return the legal strategy that should be fastest."""
    legal = [way for way in WAYS if way.refused(layer, facts) is None]
    return min(legal, key=lambda way: way.cycles(layer, facts)).strategy


def reasons(op: ConvKernelOp, facts: Facts, sizes: Mapping[str, int]) -> list[str]:
    """Say what each strategy would take for a kernel's convolution, the chosen one first."""
    layer = layer_of_kernel(op, sizes)
    lines: list[str] = []
    for way in sorted(WAYS, key=lambda way: way.strategy is not op.strategy.data):
        refused = way.refused(layer, facts)
        time = refused or f"{seconds(way, layer, facts) * 1e6:.1f} us expected"
        chosen = "    (chosen)" if way.strategy is op.strategy.data else ""
        lines.append(f"{way.strategy.value:<9} {time}{chosen}")
    return lines
