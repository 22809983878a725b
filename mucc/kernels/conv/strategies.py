"""Ways to compute a convolution: when each is legal, and how long it should take.

Times are of the target's first card. They rank strategies; they leave out launches, and what both have alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.ir import SSAValue

from mucc.dialects.cutlass.nodes import LoadOp, StoreOp
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.ops.views import IndexMapOp
from mucc.kernels.conv.layer import Layer, layer_of_kernel
from mucc.kernels.conv.matrices import best_matrix_tile, matrix_cycles
from mucc.kernels.conv.matrices import refused as refused_matrices
from mucc.kernels.conv.op import ConvKernelOp, Strategy
from mucc.kernels.conv.patches import best_patch, patch_cycles
from mucc.kernels.conv.planes import best_plane, plane_cycles
from mucc.kernels.conv.positions import best_positions, is_gradient, position_cycles
from mucc.kernels.conv.positions import refused as refused_positions
from mucc.kernels.conv.strips import strip_cycles
from mucc.kernels.conv.tiles import ROWS, STAGE_ROW, tile_of
from mucc.kernels.conv.wide import best_tile, wide_cycles
from mucc.kernels.map.op import MapOp
from mucc.target.facts import Facts

LANES = 128
"""Instructions of threads that a multiprocessor issues in a cycle."""
GATHERED = 80
"""Instructions in whose time a thread finds and loads an element by itself (measured on an H200)."""
BLOCK_CYCLES = 2200
"""Cycles that a block of `tiles` takes besides, with three to a multiprocessor (likewise)."""
COPIED_SHARE = 0.3
"""The share of the rate of mma.sync that `tiles` reaches with copies of 16 bytes: 0.2 to 0.35 on an H200."""
COPY_SHARE = 0.9
"""What a copy of x to another order of axes reaches of the bandwidth (measured on an H100: 0.95)."""
SCATTERED, BETWEEN = 0.5, 2.0
"""The share of the time of memory that does not overlap with products where results have channels first
(measured on an H100: 1.1 to 2.1 times the time without it), and where they also lie between those of other
classes (3.5 to 4.5 times)."""
SUMMED, SPREAD = 9, 12
"""Instructions for a multiply-add of `direct` with its share of loads and addresses, and of a transposed one
(counted in the code for sm_90a). Strips have a model of their own (`strips.py`)."""

SCATTERED_READS = 5.0
"""How many times as long `direct` takes where neighbouring threads read x in lines of channels of their own:
158 us for 1x1 from 64 to 2 channels at 8x256x256 on an H100."""

BUSY_THREADS = 512
"""Threads of a multiprocessor that hide the waits of each other's loads."""

FORMATS = ("bf16", "f16", "tf32", "e4m3", "s8")
"""The formats that warpgroups multiply, whose numbers tf32 holds."""

MOST_CLASSES = 16
"""The most classes of outputs of a transposed convolution, which have a map of x each."""


class Way(ABC):
    """A strategy with its legality rule and its cost."""

    strategy: ClassVar[Strategy]
    by_vectors: ClassVar[bool] = False
    """Whether x is copied in vectors along its channels, which then have to be adjacent."""

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        """Return why the strategy is not legal, as a clause; None if it is."""
        return None

    def manner(self, layer: Layer, facts: Facts) -> str:
        """Say what the strategy chooses besides, as words in brackets; none by default."""
        return ""

    def copying(self, layer: Layer, bandwidth: float) -> float:
        """Estimate the seconds of copies of operands, and of memory that nothing overlaps with for them.

        `bandwidth` is that of memory, in bytes per second.
        """
        if not self.by_vectors or not layer.whole or not layer.copied:
            return 0.0
        stored = (SCATTERED if layer.classes == 1 else BETWEEN) * layer.moved / bandwidth
        return layer.copied / (COPY_SHARE * bandwidth) + stored

    @abstractmethod
    def cycles(self, layer: Layer, facts: Facts) -> float:
        """Estimate the cycles that one multiprocessor would take alone."""


class Tiles(Way):
    """As a product of matrices: whole tiles are computed, whatever part of them the groups fill."""

    strategy, by_vectors = Strategy.TILES, True

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if layer.pooled and layer.transposed and layer.classes > 1:
            return "windows of the pool have outputs of several classes, which are blocks of their own"
        tile = tile_of(layer.outputs, layer.whole, facts.limits.shared_memory, layer.reduced)
        return "a block has too little shared memory for two stages" if tile.stages < 2 else None

    def cycles(self, layer: Layer, facts: Facts) -> float:
        tile = tile_of(layer.outputs, layer.whole, facts.limits.shared_memory, layer.reduced)
        sm, compute = facts.multiprocessor, "f16" if layer.compute == "e4m3" else layer.compute
        depth = _padded(layer.channels * layer.taps, STAGE_ROW // layer.element_bytes)
        blocks = layer.groups * math.ceil(layer.rows / ROWS) * math.ceil(layer.outputs / tile.columns)
        elements = blocks * ROWS * depth
        rate = sm.flops_per_cycle(compute) * (1.0 if compute == "f32" else sm.mma_sync_share)
        if compute in FORMATS and layer.whole:
            rate *= COPIED_SHARE
        found = 0.0 if layer.whole else elements * GATHERED / LANES
        cycles = 2 * elements * tile.columns / rate + found + blocks * BLOCK_CYCLES
        # Few blocks with long sums leave most multiprocessors idle.
        return cycles * (max(1.0, facts.devices[0].multiprocessors / blocks) if is_gradient(layer) else 1.0)


class Warpgroups(Way):
    """As a product of matrices that warpgroups multiply, from tiles that TMA loads.

    Calls whose tensors it cannot map are computed as by `Tiles`.
    """

    strategy, by_vectors = Strategy.WARPGROUPS, True

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if not facts.multiprocessor.wgmma:
            return f"{facts.name} has no wgmma"
        if layer.pooled:
            return "TMA has positions in their order, not by windows of a pool"
        if layer.compute not in FORMATS:
            return f"wgmma multiplies {', '.join(FORMATS)}"
        if not layer.whole:
            return "the channels of a group are no multiple of 16 bytes"
        if layer.groups > 1 and layer.channels % (STAGE_ROW // layer.element_bytes):
            return f"the channels of a group are no multiple of {STAGE_ROW} bytes"
        if layer.classes > MOST_CLASSES:
            return f"there are more than {MOST_CLASSES} classes of outputs"
        return Tiles().refused(layer, facts)

    def manner(self, layer: Layer, facts: Facts) -> str:
        return best_tile(layer, facts).text

    def cycles(self, layer: Layer, facts: Facts) -> float:
        return wide_cycles(best_tile(layer, facts), layer, facts)


class Matrices(Warpgroups):
    """As a product of matrices for each element of the batch: a window of one element, with x where it lies.

    Calls whose tensors TMA cannot map are computed as by `Tiles`.
    """

    strategy, by_vectors = Strategy.MATRICES, False

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        return super().refused(layer, facts) or refused_matrices(layer)

    def manner(self, layer: Layer, facts: Facts) -> str:
        return best_matrix_tile(layer, facts).text

    def copying(self, layer: Layer, bandwidth: float) -> float:
        return SCATTERED * layer.moved / bandwidth if layer.copied else 0.0

    def cycles(self, layer: Layer, facts: Facts) -> float:
        return matrix_cycles(best_matrix_tile(layer, facts), layer, facts)


class Planes(Way):
    """As a product that warpgroups multiply, whose left factor is read from planes of x with channels before
    the spatial axes.

    Calls whose tensors TMA cannot map are computed as by `Tiles`.
    """

    strategy = Strategy.PLANES

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if not facts.multiprocessor.wgmma:
            return f"{facts.name} has no wgmma"
        if layer.compute != "tf32":
            return "factors that threads load one by one are multiplied as tf32"
        if not layer.vectors:
            return "lines of x are no multiple of 16 bytes, or not contiguous"
        if not layer.whole:
            return "the channels of a group are no multiple of 16 bytes"
        if layer.groups > 1 and layer.channels % (STAGE_ROW // layer.element_bytes):
            return f"the channels of a group are no multiple of {STAGE_ROW} bytes"
        if best_plane(layer, facts) is None:
            return "no tile of outputs fits"
        return Tiles().refused(layer, facts)

    def manner(self, layer: Layer, facts: Facts) -> str:
        tile = best_plane(layer, facts)
        return tile.text if tile else ""

    def cycles(self, layer: Layer, facts: Facts) -> float:
        tile = best_plane(layer, facts)
        assert tile is not None, "the strategy is legal"
        return plane_cycles(tile, layer, facts)


class Positions(Way):
    """As a product over the positions of a large window, batch and channels of the result innermost.

    Calls whose tensors TMA cannot map are computed as by `Tiles`.
    """

    strategy = Strategy.POSITIONS

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if not facts.multiprocessor.wgmma:
            return f"{facts.name} has no wgmma"
        return refused_positions(layer) or Tiles().refused(layer, facts)

    def manner(self, layer: Layer, facts: Facts) -> str:
        return best_positions(layer, facts).text

    def copying(self, layer: Layer, bandwidth: float) -> float:
        return layer.turned / (COPY_SHARE * bandwidth)

    def cycles(self, layer: Layer, facts: Facts) -> float:
        return position_cycles(best_positions(layer, facts), layer, facts)


class Patches(Way):
    """As a product whose left factor is read from a patch of x in shared memory, in any order of axes."""

    strategy = Strategy.PATCHES

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if layer.compute not in FORMATS:
            return f"factors are multiplied as tf32, which holds {', '.join(FORMATS)}"
        if best_patch(layer, facts, along=True) is None or best_patch(layer, facts, along=False) is None:
            return "no tile of outputs fits"
        return None

    def manner(self, layer: Layer, facts: Facts) -> str:
        tile = best_patch(layer, facts, along=not layer.vectors)
        return tile.text if tile else ""

    def cycles(self, layer: Layer, facts: Facts) -> float:
        tile = best_patch(layer, facts, along=False)
        assert tile is not None, "the strategy is legal"
        return patch_cycles(tile, layer, facts)


class Direct(Way):
    """Multiply-adds of single outputs, and nothing else."""

    strategy = Strategy.DIRECT

    def refused(self, layer: Layer, facts: Facts) -> str | None:
        if layer.reduced or layer.pooled:
            return "no block has all results that are reduced or pooled"
        return "no block has positions enough for moments of them" if layer.measured else None

    def cycles(self, layer: Layer, facts: Facts) -> float:
        if (strips := strip_cycles(layer, facts)) is not None:
            return strips * facts.devices[0].multiprocessors
        sums = layer.groups * layer.outputs * layer.rows
        cycles = sums * layer.channels * layer.taps * (SPREAD if layer.transposed else SUMMED) / LANES
        if layer.whole and not layer.copied:
            cycles *= SCATTERED_READS
        threads = facts.devices[0].multiprocessors * BUSY_THREADS
        return cycles * (max(1.0, threads / sums) if is_gradient(layer) else 1.0)


WAYS: tuple[Way, ...] = (Warpgroups(), Matrices(), Planes(), Positions(), Tiles(), Patches(), Direct())


def _padded(extent: float, multiple: int) -> int:
    return math.ceil(extent / multiple) * multiple


def seconds(way: Way, layer: Layer, facts: Facts) -> float:
    """Estimate the time of a strategy on the target's first card, no less than memory takes."""
    card = facts.devices[0]
    computing = way.cycles(layer, facts) / card.multiprocessors / card.clock(facts.multiprocessor)
    bandwidth = card.datasheet["dram_bandwidth"]
    return max(computing, layer.moved / bandwidth) + way.copying(layer, bandwidth)


def fastest(ways: Sequence[Way], layer: Layer, facts: Facts) -> tuple[Way, float]:
    """Return the legal strategy that should be fastest, of equal ones the first, and its time."""
    times = [(way, seconds(way, layer, facts)) for way in ways if way.refused(layer, facts) is None]
    return min(times, key=lambda one: one[1])


def choose(layer: Layer, facts: Facts) -> Strategy:
    """Return the legal strategy that should be fastest."""
    return fastest(WAYS, layer, facts)[0].strategy


REACHED = 0.8
"""The share of the speed that strategies are ranked by which kernels reach (decision 41: 0.69 to 0.88)."""
WIDE_REACHED, WIDE_APART, WIDE_BEGIN = 0.8, 0.53, 6.3e-6
"""The same of `warpgroups`, and where outputs have several classes (`unet_up_2x2`: 152 us), and the seconds
that kernels take beside: fitted to `nhwc` layers of bf16 in `bench/results/h100_sxm/conv.json`."""
DIRECT_REACHED = 0.15
"""The same of `direct` with several channels to a group, whose reads are not ranked as scattered."""


LEAST = 10e-6
"""Seconds that a convolution takes on an H100 at the least, but for strips: 13 us for 98 to 1568 positions in
ResNet-18, where 3 were expected (`bench.models --profiles`)."""


def expected(op: ConvKernelOp, facts: Facts, sizes: Mapping[str, int]) -> float:
    """Estimate the time of a kernel, whose operands are where its strategy reads them."""
    layer = layer_of_kernel(op, sizes)._replace(copied=0)
    (way,) = (way for way in WAYS if way.strategy is op.strategy.data)
    estimate = seconds(way, layer, facts)
    if way.strategy in (Strategy.WARPGROUPS, Strategy.MATRICES):
        share = WIDE_APART if layer.classes > 1 else WIDE_REACHED
        return max(estimate / share + WIDE_BEGIN, LEAST)
    if way.strategy is Strategy.DIRECT and strip_cycles(layer, facts) is not None:
        return estimate / REACHED
    is_scattered = way.strategy is Strategy.DIRECT and layer.channels > 1 and not layer.whole
    return max(estimate / (DIRECT_REACHED if is_scattered else REACHED), LEAST)


def _copied_from(op: ConvKernelOp) -> SSAValue | None:
    """Return the tensor of which x of a kernel is a copy; None where it is none."""
    for use in view_of(op.x).base.uses:
        kernel = use.operation.parent_op()
        if isinstance(kernel, MapOp) and isinstance(use.operation, StoreOp):
            loads = [inner for inner in kernel.nodes if isinstance(inner, LoadOp)]
            if len(loads) == 1 and use.operation.value is loads[0].result:
                return view_of(loads[0].source).base
    return None


def reasons(op: ConvKernelOp, facts: Facts, sizes: Mapping[str, int]) -> list[str]:
    """Say what each strategy would take for a kernel's convolution, the chosen one first."""
    layer, source = layer_of_kernel(op, sizes), _copied_from(op)
    if source is not None:
        layer = layer._replace(matrices=layer.matrices and not isinstance(source.owner, IndexMapOp))
    elif op.strategy.data in {way.strategy for way in WAYS if way.by_vectors}:
        layer = layer._replace(copied=0, matrices=False)
    lines: list[str] = []
    for way in sorted(WAYS, key=lambda way: way.strategy is not op.strategy.data):
        refused = way.refused(layer, facts)
        time = refused or f"{seconds(way, layer, facts) * 1e6:.1f} us expected"
        manner = "" if refused else way.manner(layer, facts)
        if not refused and way.by_vectors and layer.whole and layer.copied:
            manner += f"{', ' if manner else ''}x copied"
        time += f" ({manner})" if manner else ""
        chosen = "    (chosen)" if way.strategy is op.strategy.data else ""
        lines.append(f"{way.strategy.value:<10} {time}{chosen}")
    return lines
