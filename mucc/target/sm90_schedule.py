"""The schedule that sm_90a gets where the user chose none: the fastest by a rough model of a tile's time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil, log2

from mucc.target import sm90_memory as memory
from mucc.target import sm90_rules as rules
from mucc.target.base import Facts
from mucc.target.config import GemmConfig, Problem, Schedule, operand_bytes

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


def choose(facts: Facts, problem: Problem, fixed: Mapping[str, str]) -> Schedule:
    """The candidate that breaks the fewest rules, holds most stages up to 3, and takes the least time.

    Some candidate breaks no rule unless a fixed setting does, or the epilogue needs too much memory.
    """
    stages = re.search(r"\d+", fixed.get("stages", ""))

    def rank(config: GemmConfig) -> tuple[int, int, float]:
        broken = rules.count(facts.limits, config, int(stages[0]) if stages else None)
        depth = 0 if broken else min(memory.max_stages(config, facts.limits.shared_memory), 3)
        return broken, -depth, cycles(facts, problem, config)

    best = min(_candidates(facts, problem, fixed), key=rank)
    raster = re.search(r"along_[mn]", fixed.get("scheduler", ""))
    return Schedule(
        best.tile,
        best.cluster,
        best.mainloop,
        best.scheduler,
        raster[0] if raster else "heuristic",
        best.swizzle,
        best.splits,
    )


def cycles(facts: Facts, problem: Problem, config: GemmConfig) -> float:
    """Clock cycles that a contraction takes: waves of tiles, each bound by wgmma or by loads from L2.

    Where an extent is not known the last of several waves counts by how full it is.
    """
    m, n, k = config.tile
    sm = facts.multiprocessor
    # A wgmma with few columns is bound by reading A from shared memory.
    math = 2 * m * max(n, 64) / sm.flops_per_cycle(config.compute)
    math *= 1 + TAPER * max(0, log2(128 * 256 / (m * n)))
    cluster_m, cluster_n = config.cluster
    load = (m / cluster_n + n / cluster_m) * config.element_bytes / sm.l2_bytes_per_cycle
    depth = ceil((problem.k or DEEP) / k) * k
    waves = _tiles(problem, config) / facts.devices[0].multiprocessors
    waves = ceil(waves) if problem.m is not None and problem.n is not None else max(waves, 1)
    return waves * (depth * max(math, load) + LATENCY)


def _tiles(problem: Problem, config: GemmConfig) -> int:
    m, n, _ = config.tile
    return ceil((problem.m or LARGE) / m) * ceil((problem.n or LARGE) / n) * (problem.batch or 1)


def _candidates(facts: Facts, problem: Problem, fixed: Mapping[str, str]) -> Iterator[GemmConfig]:
    """Every shape with every depth and cluster that suits it; fixed settings hold in all."""
    element = operand_bytes(problem.compute)
    tile = _sizes(fixed.get("tile"), 3)
    cluster = _sizes(fixed.get("cluster"), 2)
    scheduler = re.search(r"persistent|stream_k|split_k", fixed.get("scheduler", ""))
    mainloop = fixed.get("mainloop")
    shapes: list[tuple[str, int, int]] = list(SHAPES)
    if mainloop or scheduler:
        mainloops = [mainloop] if mainloop else ["cooperative", "pingpong"]
        shapes = [(word, m, n) for word in mainloops for m, n in dict.fromkeys((m, n) for _, m, n in SHAPES)]
    if tile:
        shapes = list(dict.fromkeys((word, tile[0], tile[1]) for word, _, _ in shapes))
    base = GemmConfig(
        problem.compute,
        element,
        problem.a_k_major,
        problem.b_k_major,
        (0, 0, 0),
        (1, 1),
        "",
        scheduler[0] if scheduler else "persistent",
        problem.epilogue,
        **_numbers(fixed.get("scheduler", "")),
    )
    depths = (tile[2],) if tile else (128 // element, 64 // element)
    for (word, m, n), depth in product(shapes, depths):
        config = replace(base, tile=(m, n, depth), mainloop=word)
        config = replace(config, cluster=(cluster[0], cluster[1]) if cluster else _cluster(problem, config))
        yield config if "scheduler" in fixed else replace(config, swizzle=_swizzle(facts, problem, config))


def _cluster(problem: Problem, config: GemmConfig) -> tuple[int, int]:
    """Two blocks that share a large operand tile, along the axis that splits evenly into pairs."""
    m, n, _ = config.tile
    if m * n < 128 * 128:
        return 1, 1
    along_m, along_n = ceil((problem.m or LARGE) / m), ceil((problem.n or LARGE) / n)
    if along_m % 2 == 0 or along_m > 8:
        return 2, 1
    return (1, 2) if along_n % 2 == 0 or along_n > 8 else (1, 1)


def _swizzle(facts: Facts, problem: Problem, config: GemmConfig) -> int:
    """Walk in small squares, which share operands in L2, where there are several waves of tiles."""
    if config.mainloop == "warpspecialized":
        return 1
    return 2 if _tiles(problem, config) >= 2 * facts.devices[0].multiprocessors else 1


def _sizes(text: str | None, rank: int) -> tuple[int, ...] | None:
    """The sizes in `128x256x64`, wherever it stands in the text."""
    found = re.search("x".join([r"(\d+)"] * rank), text or "")
    return tuple(map(int, found.groups())) if found else None


def _numbers(text: str) -> dict[str, int]:
    """The swizzle and splits in the text of a scheduler."""
    found = {name: re.search(rf"{name}\s*=\s*(\d+)", text) for name in ("swizzle", "splits")}
    numbers = {name: int(match[1]) for name, match in found.items() if match}
    if bare := re.search(r"split_k\((\d+)\)", text):
        numbers["splits"] = int(bare[1])
    return numbers
