"""Which configurations sm_100a has: every rule with its code, the fact that decides, and a legal value.

The rules are those of CUTLASS 4.2 (static assertions, `can_implement`) and of its copy and matrix
instructions. Rules on single settings come first; those that weigh settings against each other are
tried once the former hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from mucc.target import rules
from mucc.target import sm100_memory as memory
from mucc.target.base import Limits
from mucc.target.config import GemmConfig
from mucc.target.rules import Broken, Fix, kilobytes, nearest_clusters, nearest_tiles, stage_counts

MAINLOOPS = ("one_sm", memory.PAIR)
COMPUTES = ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8")

TILE_M = (64, 128)
TILE_N = (16, 32, 64, 96, 128, 160, 192, 224, 256)
TILE_K = (8, 16, 32, 64, 128)
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (8, 1), (1, 8))


def broken(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    """The broken rules; those across settings only where every setting is good by itself."""
    first = list(_single(limits, config, stages))
    yield from first or _across(limits, config, stages)


def mended(config: GemmConfig, stages: int | None, settings: set[str]) -> tuple[GemmConfig, int | None]:
    """The configuration with harmless values for some settings."""
    if "mainloop" in settings:
        config = replace(config, mainloop=memory.PAIR if config.cluster[0] % 2 == 0 else "one_sm")
    if "cluster" in settings:
        config = replace(config, cluster=(2, 1) if config.mainloop == memory.PAIR else (1, 1))
    if "scheduler" in settings:
        config = replace(config, scheduler="persistent", splits=1, swizzle=1)
    if "tile" in settings:
        config = replace(config, tile=(128, 128, 128 // config.element_bytes))
    return config, None if "stages" in settings else stages


# Proposals


def _tiles(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    return nearest_tiles(config, stages, TILE_M, TILE_N, TILE_K)


def _clusters(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    return nearest_clusters(config, stages, CLUSTERS)


def _mainloops(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    for mainloop in MAINLOOPS if config.cluster[0] % 2 else MAINLOOPS[::-1]:
        yield Fix(mainloop, replace(config, mainloop=mainloop), stages)


def _schedulers(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    """The same scheduler with numbers that it takes, then a plain one."""
    splits = min(max(config.splits, 1), limits.splits)
    if config.scheduler == "split_k":
        yield Fix(f"split_k({splits})", replace(config, splits=splits), stages)
    if config.scheduler == "stream_k":
        yield Fix(f"stream_k(splits={splits})", replace(config, splits=splits), stages)
    plain = replace(config, scheduler="persistent", splits=1)
    swizzle = max((s for s in limits.swizzles if s <= config.swizzle), default=1)
    yield Fix(f"persistent(swizzle={swizzle})", replace(plain, swizzle=swizzle), stages)


# Rules on single settings


def _single(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    if config.mainloop not in MAINLOOPS:
        yield Broken(
            "MU3011",
            "mainloop",
            f"sm_100a has no {config.mainloop} mainloop",
            ("contractions of sm_100a multiply by tcgen05; its mainloops are " + ", ".join(MAINLOOPS),),
            _mainloops,
        )
    if config.compute not in COMPUTES:
        yield Broken(
            "MU3020",
            "mainloop",
            f"the {config.mainloop} mainloop does not compute in {config.compute}",
            ("its matrix instructions multiply " + ", ".join(COMPUTES),),
            _mainloops,
        )
    yield from rules.launches(config, MAINLOOPS)
    yield from rules.pieces(config)
    yield from _tile(limits, config)
    m, n = config.cluster
    if any(x < 1 or x & (x - 1) for x in (m, n)) or m * n > limits.cluster_blocks:
        most = limits.cluster_blocks
        note = f"extents are powers of two, and {most} blocks launch on every card"
        yield Broken("MU3008", "cluster", f"a cluster of {m}x{n} is not possible", (note,), _clusters)
    yield from _scheduler(limits, config)
    if stages is not None and stages < 2:
        yield Broken(
            "MU3017",
            "stages",
            f"a pipeline needs at least 2 stages, not {stages}",
            ("one stage is filled while the other is consumed",),
            partial(stage_counts, most=2),
        )


def _tile(limits: Limits, config: GemmConfig) -> Iterator[Broken]:
    m, n, k = config.tile
    if m not in TILE_M:
        note = "a matrix instruction computes 64 or 128 rows for each block"
        yield Broken("MU3001", "tile", f"tile M = {m} is neither 64 nor 128", (note,), _tiles)
    columns = 32 if config.mainloop == memory.PAIR else 16
    if n < 1 or n % columns:
        note = f"a matrix instruction of the {config.mainloop} mainloop computes columns {columns} at a time"
        yield Broken("MU3002", "tile", f"tile N = {n} is not a multiple of {columns}", (note,), _tiles)
    if n > limits.tensor_columns // 2:
        note = f"tensor memory has {limits.tensor_columns} columns, and two tiles must fit"
        yield Broken("MU3070", "tile", f"tile N = {n} is above {limits.tensor_columns // 2}", (note,), _tiles)
    step = 32 // config.element_bytes
    if k < 1 or k % step:
        note = f"a matrix instruction takes 32 bytes of K, {step} {config.compute} elements"
        message = f"tile K = {k} is not a multiple of {step}, as {config.compute} needs"
        yield Broken("MU3003", "tile", message, (note,), _tiles)
    if k > limits.copy_extent:
        message = f"tile extent {k} is larger than the {limits.copy_extent} that one copy moves"
        note = f"a TMA box has at most {limits.copy_extent} elements along each axis"
        yield Broken("MU3007", "tile", message, (note,), _tiles)


def _scheduler(limits: Limits, config: GemmConfig) -> Iterator[Broken]:
    fixes = partial(_schedulers, limits=limits)
    if config.swizzle not in limits.swizzles:
        yield Broken(
            "MU3012",
            "scheduler",
            f"swizzle {config.swizzle} is none of {', '.join(map(str, limits.swizzles))}",
            ("the scheduler walks blocks of tiles whose side is a power of two",),
            fixes,
        )
    if not 1 <= config.splits <= limits.splits:
        yield Broken(
            "MU3013",
            "scheduler",
            f"K cannot be divided into {config.splits} parts: 1 to {limits.splits} are possible",
            (f"the scheduler uses at most one part per multiprocessor, and there are {limits.splits}",),
            fixes,
        )


# Rules across settings


def _across(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    m, n, k = config.tile
    blocks = config.cluster[0]
    if config.mainloop == memory.PAIR and blocks % 2:
        yield Broken(
            "MU3071",
            "cluster",
            f"the two_sm mainloop needs pairs of blocks along M, but the cluster has {blocks}",
            ("the tensor cores of two neighbouring multiprocessors work on one instruction",),
            _clusters,
        )
    if n % (8 * blocks):
        yield Broken(
            "MU3009",
            "cluster",
            f"a cluster of {blocks} blocks along M cannot share tile N = {n}",
            (f"each block loads an equal part of B, in groups of 8: N must be a multiple of {8 * blocks}",),
            _clusters,
        )
    yield from _epilogue(config)
    fitting = memory.max_stages(config, limits.shared_memory)
    notes = (
        f"a stage takes {kilobytes(memory.stage_bytes(config))} of each block",
        f"the epilogue takes {kilobytes(memory.epilogue_bytes(config))}",
    )
    if fitting < 2:
        used = kilobytes(memory.kernel_storage(config, 2))
        capacity = kilobytes(limits.shared_memory)
        message = f"tile {m}x{n}x{k} does not fit: 2 stages take {used} of {capacity} of shared memory"
        yield Broken("MU3005", "tile", message, notes, _tiles)
    elif stages is not None and stages > fitting:
        capacity = f"{limits.shared_memory // 1024} KB"
        message = f"pipeline needs {stages} stages but {fitting} fit in {capacity} of shared memory"
        yield Broken("MU3004", "stages", message, notes, partial(stage_counts, most=fitting))


def _epilogue(config: GemmConfig) -> Iterator[Broken]:
    """The epilogue's pieces must divide the tile."""
    n, (rows, columns) = config.tile[1], memory.epilogue_tile(config)
    if n % columns:
        message = f"tile N = {n} is not a multiple of the {columns} columns that the epilogue works on"
        note = f"the epilogue works on {rows}x{columns} elements at a time"
        yield Broken("MU3072", "tile", message, (note,), _tiles)
