"""Schedules for sm_90a's TMA kernels: what is worth trying, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

from mucc.kernels.gemm.scheduling import multistage
from mucc.kernels.gemm.scheduling import sm90_memory as memory
from mucc.kernels.gemm.scheduling import sm90_rules as rules
from mucc.kernels.gemm.scheduling.config import Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.cost import Extents, Walk
from mucc.kernels.gemm.scheduling.sm90_cost import Sm90Cost
from mucc.kernels.gemm.scheduling.tma import TmaFamily
from mucc.kernels.workload import Estimate
from mucc.target.facts import Device, Facts

COOPERATIVE = ((128, 256), (256, 128), (128, 192), (128, 128), (256, 64), (128, 64), (128, 32))
PINGPONG = (
    *((192, 128), (128, 128), (128, 64), (128, 32), (128, 16)),
    *((64, 256), (64, 192), (64, 128), (64, 64), (64, 32), (64, 16)),
)
"""Output tiles worth trying, the best first among equals."""

FITTED = (("cooperative", 128), ("cooperative", 256), ("pingpong", 64), ("pingpong", 128), ("pingpong", 192))
"""Rows of tiles whose width may be any that makes the tiles just under a whole number of waves."""

GAIN, LONG_GAIN = 0.98, 0.95
"""The part of the best other tile's time below which such a tile is worth a kernel of its own, and one that
takes long to compile (see `rules.PLAIN_COLUMNS`)."""

FITS = 16
"""Tiles at most that are tried for their number of waves, those with the least work first."""

CLUSTERS = ((1, 1), (2, 1), (1, 2))

WIDE = ((1, 4),)
"""Clusters worth trying as well where all rows are in one tile of 64, which its blocks share."""

MOST_SPLITS = 16
"""Parts that K is divided into at most: each waits for the one before it."""

WALKS = (("heuristic", 1), ("heuristic", 4), ("heuristic", 8), ("along_m", 1), ("along_n", 1))
"""Orders of tiles worth trying where there are several waves, besides a swizzle of 2: raster and swizzle."""

NEAR = 1.15
"""How far from the best a kernel may be for other orders of its tiles to be worth trying."""

FEW = 256
"""Rows or columns up to which exchanging operands is worth trying: a tile has 64 rows or more, 16 columns."""


class Sm90Tma(TmaFamily):
    """CUTLASS's Sm90 kernels that load by TMA."""

    takes_sparse = True

    def __init__(self) -> None:
        super().__init__(rules, memory)
        self.computes = (*rules.COMPUTES, *rules.SPLIT)
        self._costs: dict[tuple[str, Problem], Sm90Cost] = {}

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Every tile, depth, cluster and division of K that suits it; then orders of tiles for the best."""
        suited = problem.compute in self.computes
        if not suited and multistage.can(problem) and pinned.get("mainloop") not in self.mainloops:
            return
        device = facts.devices[0]
        cost = self.cost_of(facts, device, problem)
        extents = Extents.of(problem)
        plain = dict.fromkeys(s.having(pinned) for s in self._kernels(device, extents, problem, pinned))
        seconds = {s: cost.estimate(s).seconds for s in plain}
        if least := self._least(facts, problem, seconds):
            fitting = {
                s: cost.estimate(s).seconds for s in _fitting(facts, device, cost, pinned, GAIN * least)
            }
            seconds |= {s: time for s, time in fitting.items() if time < GAIN * least}
        yield from seconds
        least = self._least(facts, problem, seconds)
        for schedule, time in seconds.items():
            if time <= NEAR * least and schedule.swizzle == 2:
                yield from (replace(schedule, raster=raster, swizzle=swizzle) for raster, swizzle in WALKS)

    def _least(self, facts: Facts, problem: Problem, seconds: Mapping[Schedule, float]) -> float:
        """Return the time of the fastest legal schedule; 0 if none is legal."""
        ordered = sorted(seconds.items(), key=lambda pair: pair[1])
        return next((t for s, t in ordered if self.is_legal(facts, problem.config(s), s.stages)), 0.0)

    def _kernels(
        self, device: Device, extents: Extents, problem: Problem, pinned: Mapping[str, Any]
    ) -> Iterator[Schedule]:
        depth = (256 if problem.is_sparse else 128) // operand_bytes(problem.compute)
        fixed = pinned.get("mainloop")
        tiles = [("cooperative", *t) for t in COOPERATIVE] + [("pingpong", *t) for t in PINGPONG]
        if fixed not in (None, "cooperative", "pingpong"):
            tiles = [(fixed, m, n) for _, m, n in tiles]
        # A tile of products is narrower in columns of the result; the narrowest of them stay what they are.
        tiles = dict.fromkeys((word, m, max(n // problem.rights, 16)) for word, m, n in tiles)
        for mainloop, m, n in tiles:
            depths = (depth, 2 * depth) if m * n <= 128 * 64 else (depth,)
            for k, cluster in product(depths, _clusters(extents, m)):
                if _is_wider(cluster, extents, m, n):
                    continue
                schedule = Schedule((m, n, k), cluster, mainloop)
                yield from _walked(device, extents, schedule)
                if mainloop == "cooperative":
                    yield from _divided(device, extents, schedule)

    def exchanges(self, problem: Problem) -> tuple[bool, ...]:
        """wgmma takes only A from registers: weights that are converted there, and 32-bit operands of which
        the other must be contiguous along K.

        CUTLASS would exchange them itself, but its TMA epilogues do not follow. A pair stays as it is, and a
        sparse operand comes first.
        """
        if problem.is_sparse:
            return (problem.b.is_sparse,)
        if problem.is_grouped or problem.listed or problem.rights == 2:
            return (False,)
        if problem.narrow is not None:
            return (problem.a.narrow is None,)
        if problem.compute == "tf32" and problem.a.k_major != problem.b.k_major:
            return (problem.a.k_major,)
        extents = Extents.of(problem)
        return (False, True) if min(extents.m, extents.n) <= FEW else (False,)

    def everything(self, facts: Facts, problem: Problem) -> Iterator[Schedule]:
        if not problem.is_sparse:
            yield from super().everything(facts, problem)
            return
        tiles = product(rules.TILE_M, rules.TILE_N, rules.SPARSE_TILE_K)
        for tile, cluster, mainloop in product(tiles, rules.CLUSTERS, rules.MAINLOOPS):
            yield Schedule(tile, cluster, mainloop)

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        return self.cost_of(facts, device, problem).estimate(schedule)

    def cost_of(self, facts: Facts, device: Device, problem: Problem) -> Sm90Cost:
        """Return the cost model of a problem, kept for the next questions about the same one."""
        key = device.name, problem
        costs = self._costs
        if (cost := costs.get(key)) is None:
            cost = Sm90Cost(facts, device, problem)
            # A new dictionary each time: threads that compile side by side ask too.
            self._costs = {**dict(list(costs.items())[-3:]), key: cost}
        return cost


def _tiles(extents: Extents, schedule: Schedule) -> int:
    m, n, _ = schedule.tile
    return ceil(extents.m / m) * ceil(extents.n / n) * extents.batch


def _clusters(extents: Extents, rows: int) -> tuple[tuple[int, int], ...]:
    """Clusters worth trying for tiles of so many rows."""
    return CLUSTERS + WIDE if extents.m <= rows == 64 else CLUSTERS


def _is_wider(cluster: tuple[int, int], extents: Extents, m: int, n: int) -> bool:
    """Whether a cluster has blocks for which there are no tiles of m x n."""
    return cluster[0] > ceil(extents.m / m) or cluster[1] > ceil(extents.n / n)


def _walked(device: Device, extents: Extents, schedule: Schedule) -> Iterator[Schedule]:
    """Yield a kernel with tiles walked in blocks of two if there are several waves, and one by one too if
    blocks of two make CUTLASS add tiles at the edge.
    """
    several = _tiles(extents, schedule) >= 2 * device.multiprocessors
    if several and schedule.mainloop in ("cooperative", "pingpong"):
        yield (blocks := replace(schedule, swizzle=2))
        if Walk.of(extents, blocks).tiles == Walk.of(extents, schedule).tiles:
            return
    yield schedule


def _limit(schedule: Schedule, problem: Problem, least: float) -> float:
    """Return the time up to which a tile of unusual width is proposed, if others take `least`."""
    plain = schedule.tile[1] * problem.rights in rules.PLAIN_COLUMNS
    return least * (GAIN if plain else LONG_GAIN)


def _fitting(
    facts: Facts, device: Device, cost: Sm90Cost, pinned: Mapping[str, Any], least: float
) -> Iterator[Schedule]:
    """Tiles of any width that fit the waves, and that may be worth it where others take `least` seconds.

    Of the widths that take one number of waves the narrowest has the least work.
    """
    extents, problem = cost.extents, cost.problem
    fixed = "tile" in pinned or pinned.get("scheduler", "persistent") != "persistent"
    if fixed or not extents.exact or problem.is_grouped or problem.blocks:
        return
    element = operand_bytes(problem.compute)
    step = max(8 * element, 16)
    found: list[tuple[float, Schedule]] = []
    kernels = [
        (mainloop, m, cluster)
        for mainloop, m in FITTED
        for cluster in ((pinned["cluster"],) if "cluster" in pinned else _clusters(extents, m))
        if pinned.get("mainloop", mainloop) == mainloop
    ]
    for mainloop, m, cluster in kernels:
        threads = 256 if mainloop == "cooperative" else 128
        registers = facts.limits.accumulator_registers * threads // m
        before = 0
        for n in range(step, min(registers, facts.limits.copy_extent) // problem.rights + 1, step):
            tile = (m, n, (256 if problem.is_sparse else 128) // element)
            waves, schedule = cost.waves(tile, cluster), Schedule(tile, cluster, mainloop)
            if waves != before and not _is_wider(cluster, extents, m, n):
                time = cost.least(tile, cluster, waves)
                found += [(time, schedule)] * (time < _limit(schedule, problem, least))
            before = waves
    found.sort(key=lambda pair: pair[0])
    for _, schedule in found[:FITS]:
        yield from (s.having(pinned) for s in _walked(device, extents, schedule))


def _divided(device: Device, extents: Extents, schedule: Schedule) -> Iterator[Schedule]:
    """Schedules that divide K, so that few tiles keep most of the card busy."""
    tiles = _tiles(extents, schedule)
    if tiles >= device.multiprocessors:
        return
    yield replace(schedule, scheduler="stream_k")
    most = min(device.multiprocessors // tiles, MOST_SPLITS, ceil(extents.k / schedule.tile[2]) // 4)
    for splits in sorted({most, most * 3 // 4, most // 2}):
        if splits > 1:
            yield replace(schedule, scheduler="split_k", splits=splits)


TMA = Sm90Tma()
