"""The cost of a contraction by any kernel: tiles in waves, and the bytes that they move.

Pure arithmetic in plain numbers. A family of kernels adds how long a tile takes (`sm90_cost`); the constants
come from the target's data file.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from mucc.kernels.gemm.scheduling.config import Epilogue, Problem, Schedule
from mucc.kernels.workload import Estimate
from mucc.target.facts import WIDEST_ACCESS, Device, Facts

LARGE, DEEP = 8192, 4096
"""Extents assumed for M and N, and for K, where they are known only at run time."""


class Extents(NamedTuple):
    """The sizes that a contraction is costed for; `exact` says that rows and columns are known."""

    m: int
    n: int
    k: int
    batch: int
    exact: bool

    @staticmethod
    def of(problem: Problem) -> Extents:
        exact = problem.m is not None and problem.n is not None
        return Extents(problem.m or LARGE, problem.n or LARGE, problem.k or DEEP, problem.batch or 1, exact)

    @property
    def flops(self) -> float:
        """Operations; a multiply-add is two."""
        return 2.0 * self.m * self.n * self.k * self.batch

    def moved(self, element: int, epilogue: Epilogue) -> float:
        """Bytes of operands, of so many for an element, and of what an epilogue loads and stores."""
        outer = self.m * self.n * sum(epilogue_bytes(epilogue))
        return float(self.batch * ((self.m + self.n) * self.k * element + outer))


class Walk(NamedTuple):
    """The order in which a persistent scheduler hands out the tiles of a grid.

    Tiles are counted with those beyond the edge that the scheduler adds to get whole clusters and swizzle
    blocks: they take as long as others. It walks `band` tiles across, then on along M or N, and comes back
    for the next band (CUTLASS: PersistentTileSchedulerSm90).
    """

    rows: int
    columns: int
    batch: int
    along_m: bool
    band: int

    @staticmethod
    def of(extents: Extents, schedule: Schedule) -> Walk:
        (m, n, _), (cluster_m, cluster_n) = schedule.tile, schedule.cluster
        rows = _up(ceil(extents.m / m), cluster_m)
        columns = _up(ceil(extents.n / n), cluster_n)
        swizzle = effective_swizzle(rows, columns, schedule.swizzle)
        rows, columns = _up(rows, swizzle * cluster_m), _up(columns, swizzle * cluster_n)
        along_m = schedule.raster == "along_m" or (schedule.raster == "heuristic" and columns > rows)
        return Walk(rows, columns, extents.batch, along_m, swizzle * (cluster_n if along_m else cluster_m))

    @property
    def tiles(self) -> int:
        return self.rows * self.columns * self.batch

    def dram_loads(self, row_bytes: float, column_bytes: float, places: int, l2_bytes: float) -> float:
        """Bytes of A and B that come from DRAM, where a row of tiles reads so many of A, a column of B.

        The tiles of a wave share what they load. A wave's neighbours find it in L2 as far as it has
        room there; the band's own panel is read again by the next wave, the other operand by the next band.
        """
        band, along, across = self.band, self.columns, self.rows
        panel, other = row_bytes, column_bytes
        if self.along_m:
            along, across, panel, other = self.rows, self.columns, column_bytes, row_bytes
        bands = across // band
        per_band = band * along
        if places >= per_band:  # a wave holds whole bands: the other operand stays in use
            return self.batch * (across * panel + along * other)
        length = places / band
        again = _missing(band * panel + length * other, l2_bytes)
        panels = across * panel * (1 + again * (along / length - 1))
        again = _missing(band * panel + along * other, l2_bytes)
        others = along * other * (1 + again * (bands - 1))
        return self.batch * (panels + others)


def effective_swizzle(rows: int, columns: int, most: int) -> int:
    """Return the swizzle that CUTLASS uses for a grid, at most `most` (get_log_swizzle_size)."""
    if most == 1:
        return 1
    least = min(rows, columns)
    return next((s for s, needed in ((8, 6), (4, 3), (2, 2)) if most >= s and least >= needed), 1)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _missing(wanted: float, capacity: float) -> float:
    """Return the share of bytes that have left a cache before they are read again."""
    return min(1.0, max(0.0, wanted / capacity - 1))


class Prepared(NamedTuple):
    """What kernels before a contraction read and write to prepare its operands."""

    bytes: float
    kernels: int


def prepared_bytes(problem: Problem, extents: Extents) -> Prepared:
    """Return the bytes and launches that prepare the matrices of a kernel that reads and writes by TMA.

    f32 operands that are split are read once, and written in three parts. Rows that are picked by number are
    copied. Of a problem that is not wide, what may have other rows than TMA takes is copied, and so is the
    result.
    """
    epilogue, size = problem.epilogue, problem.element_bytes
    moved: list[float] = []
    for operand, extent in ((problem.a, extents.m), (problem.b, extents.n)):
        unaligned = not problem.wide and operand.granule < WIDEST_ACCESS
        if problem.compute == "tf32x3":
            moved.append(4.0 * size * extent * extents.k)
        elif unaligned or operand.is_gathered:
            moved.append(2.0 * size * extent * extents.k)
    if not problem.wide and not problem.outer:
        outer = (epilogue.source, epilogue.destination, *epilogue.aux_loads, *epilogue.aux_stores)
        moved += [2.0 * size * extents.m * extents.n for size in outer if size]
    return Prepared(extents.batch * sum(moved), len(moved))


def preparing(facts: Facts, device: Device, prepared: Prepared) -> float:
    """Seconds of kernels that prepare operands."""
    bandwidth = facts.cost["dram_share"] * device.datasheet["dram_bandwidth"]
    return prepared.bytes / bandwidth + prepared.kernels * facts.cost["launch"]


def with_gather(facts: Facts, device: Device, problem: Problem, estimate: Estimate) -> Estimate:
    """Return the estimate of a kernel together with the copy of picked rows before it."""
    if not problem.is_gathered:
        return estimate
    prepared = prepared_bytes(problem._replace(wide=True), Extents.of(problem))
    seconds = preparing(facts, device, prepared)
    return estimate._replace(
        seconds=estimate.seconds + seconds,
        parts={"preparation": seconds, **estimate.parts},
        bytes=estimate.bytes + prepared.bytes,
    )


class Division(NamedTuple):
    """How K is divided over blocks: `units` pieces of work of at most `depth` steps along K, and how many
    of them add up to one tile."""

    units: float
    depth: float
    peers: float


MIN_STEPS = 8
"""Steps along K that a stream-K unit has at least (CUTLASS: min_iters_per_sk_unit_)."""


def divide(tiles: int, steps: int, places: int, schedule: Schedule) -> Division:
    """Return the division of tiles, of `steps` steps along K each, that the scheduler makes.

    `stream_k` follows CUTLASS's heuristic: no division where the last of several waves is half full.
    """
    if schedule.scheduler == "split_k":
        splits = max(1, min(schedule.splits, places, steps))
        return Division(tiles * splits, ceil(steps / splits), splits)
    if schedule.scheduler != "stream_k":
        return Division(tiles, steps, 1)
    if schedule.splits > 1:
        return divide(tiles, steps, places, replace(schedule, scheduler="split_k"))
    full, last = divmod(tiles, places)
    if not last or steps <= MIN_STEPS or 2 * last >= places:
        return Division(tiles, steps, 1)
    divided = tiles - max(full - 1, 0) * places
    units = min(places, divided * steps // MIN_STEPS)
    each = divided * steps / units
    # Tiles that are not divided come first; in waves, one more unit of the size of a tile for each.
    depth = each + max(full - 1, 0) * steps
    return Division(units, depth, max(1.0, steps / each) + (0 if units % divided == 0 else 1))


def epilogue_bytes(epilogue: Epilogue) -> tuple[int, int]:
    """Bytes that an epilogue loads and stores per element of the result."""
    loads = (epilogue.source or 0) + sum(epilogue.aux_loads)
    return loads, (epilogue.destination or 0) + sum(epilogue.aux_stores)


def larger(*terms: float) -> float:
    """Return the largest of times that overlap, and a little more if several are close: the 8-norm."""
    top = max(terms)
    return top * sum((t / top) ** 8 for t in terms) ** 0.125 if top > 0 else 0.0
