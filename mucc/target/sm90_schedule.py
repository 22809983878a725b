"""Schedules for sm_90a's TMA kernels: what is worth trying, and a rough model of a tile's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil, log2
from typing import Any

from mucc.target import sm90_memory as memory
from mucc.target import sm90_rules as rules
from mucc.target.base import Device, Facts, Family
from mucc.target.config import Estimate, GemmConfig, Problem, Schedule, operand_bytes

SHAPES = (
    *(("cooperative", m, n) for m, n in ((128, 256), (256, 128), (128, 192), (128, 128))),
    *(("pingpong", 128, n) for n in (128, 64, 32, 16)),
    *(("pingpong", 64, n) for n in (256, 128, 64, 32, 16)),
)
"""Tiles worth trying, the best first among equals: large ones cooperative, small ones pingpong."""

LARGE, DEEP = 8192, 4096
"""Extents assumed for M and N, and for K, where they are known only at run time."""

LATENCY = 2000
"""Cycles from a tile's start to its end that no other work hides: filling the pipeline, the epilogue."""

TAPER = 0.05
"""What a tile of half the area loses in wgmma efficiency."""


class Sm90Tma(Family):
    """CUTLASS's Sm90 kernels that load by TMA."""

    mainloops = rules.MAINLOOPS

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Every shape with every depth and the cluster and swizzle that suit it."""
        element = operand_bytes(problem.compute)
        free = "mainloop" not in pinned and "scheduler" not in pinned
        shapes = SHAPES if free else tuple(product(("cooperative", "pingpong"), *_sides()))
        # A tile of products is narrower in columns of the result; the narrowest of them stay what they are.
        shapes = dict.fromkeys((word, m, max(n // problem.rights, 16)) for word, m, n in shapes)
        for (word, m, n), depth in product(shapes, (128 // element, 64 // element)):
            schedule = replace(Schedule((m, n, depth), mainloop=word), **pinned)
            schedule = replace(schedule, cluster=_cluster(problem, schedule))
            yield replace(schedule, swizzle=_swizzle(facts.devices[0], problem, schedule))

    def exchanges(self, problem: Problem) -> tuple[bool, ...]:
        """Of 32-bit operands, wgmma takes only A from registers, and B must be contiguous along K.

        CUTLASS would exchange them itself, but its TMA epilogues do not follow. A pair stays as it is.
        """
        if problem.rights == 2:
            return (False,)
        if operand_bytes(problem.compute) < 4 or problem.a_k_major == problem.b_k_major:
            return (False, True)
        return (problem.a_k_major,)

    def everything(self, facts: Facts, problem: Problem) -> Iterator[Schedule]:
        tiles = product(rules.TILE_M, rules.TILE_N, rules.TILE_K)
        for tile, cluster, mainloop in product(tiles, rules.CLUSTERS, rules.MAINLOOPS):
            yield Schedule(tile, cluster, mainloop)

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Waves of tiles, each bound by wgmma or by loads from L2.

        Where an extent is not known the last of several waves counts by how full it is.
        """
        config = problem.config(schedule)
        m, _, k = config.tile
        n = config.columns
        sm = facts.multiprocessor
        # A wgmma with few columns is bound by reading A from shared memory.
        math = 2 * m * max(n, 64) / sm.flops_per_cycle(config.compute)
        math *= 1 + TAPER * max(0, log2(128 * 256 / max(m * n, 1)))
        cluster_m, cluster_n = (max(x, 1) for x in config.cluster)
        load = (m / cluster_n + n / cluster_m) * config.element_bytes / sm.l2_bytes_per_cycle
        depth = ceil((problem.k or DEEP) / k) * k
        waves = _tiles(problem, schedule) / device.multiprocessors
        rounds = ceil(waves) if problem.m is not None and problem.n is not None else max(waves, 1)
        stages = schedule.stages or memory.max_stages(config, facts.limits.shared_memory)
        clock = device.datasheet["bf16"] / sm.tensor_flops_per_cycle["bf16"]
        clock /= device.multiprocessors
        parts = {
            "mainloop": rounds * depth * max(math, load) / clock,
            "fill": rounds * LATENCY * (2 if stages < 3 else 1) / clock,
        }
        extents = (problem.m or LARGE, problem.n or LARGE, problem.k or DEEP, problem.batch or 1)
        return Estimate(
            sum(parts.values()),
            parts,
            "math" if math >= load else "L2",
            waves,
            device.multiprocessors,
            1 - waves / rounds,
            2.0 * extents[0] * extents[1] * extents[2] * extents[3] * config.rights,
            _compulsory(extents, config),
        )


def _compulsory(extents: tuple[int, int, int, int], config: GemmConfig) -> float:
    m, n, k, batch = extents
    outer = (config.epilogue.destination or 0) + (config.epilogue.source or 0)
    outer += sum(config.epilogue.aux_loads) + sum(config.epilogue.aux_stores)
    return float(batch * ((m + n * config.rights) * k * config.element_bytes + m * n * outer))


def _sides() -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (128, 256, 64), (256, 192, 128, 64, 32, 16)


def _tiles(problem: Problem, schedule: Schedule) -> int:
    m, n, _ = schedule.tile
    return ceil((problem.m or LARGE) / m) * ceil((problem.n or LARGE) / n) * (problem.batch or 1)


def _cluster(problem: Problem, schedule: Schedule) -> tuple[int, int]:
    """Two blocks that share a large operand tile, along the axis that splits evenly into pairs."""
    m, n, _ = schedule.tile
    if m * n * problem.rights < 128 * 128:
        return 1, 1
    along_m, along_n = ceil((problem.m or LARGE) / m), ceil((problem.n or LARGE) / n)
    if along_m % 2 == 0 or along_m > 8:
        return 2, 1
    return (1, 2) if along_n % 2 == 0 or along_n > 8 else (1, 1)


def _swizzle(device: Device, problem: Problem, schedule: Schedule) -> int:
    """Walk in small squares, which share operands in L2, where there are several waves of tiles."""
    if schedule.mainloop == "warpspecialized":
        return 1
    return 2 if _tiles(problem, schedule) >= 2 * device.multiprocessors else 1
