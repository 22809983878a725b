"""Legality rules of sm_100a: each has a code, the fact that decides, and a legal value.

The rules are those of CUTLASS 4.2 (static assertions, `can_implement`) and of its copy and matrix
instructions. Rules on single settings come first; those that weigh settings against each other are
tried once the former hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mucc.kernels.gemm.scheduling import rules
from mucc.kernels.gemm.scheduling import sm100_memory as memory
from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.rules import (
    CLUSTERS,
    Broken,
    Fix,
    kilobytes,
    nearest_clusters,
    nearest_tiles,
)
from mucc.kernels.violation import Violation
from mucc.target.facts import Limits

MAINLOOPS = ("one_sm", memory.PAIR)
COMPUTES = ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8")

TILE_M = (64, 128)
TILE_N = (16, 32, 64, 96, 128, 160, 192, 224, 256)
TILE_K = (8, 16, 32, 64, 128)


def violations(limits: Limits, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one."""
    return rules.violations(partial(broken, limits), _mended, config, stages)


def broken(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    """Yield the broken rules; those across settings only if each setting is legal by itself."""
    first = list(_single(limits, config, stages))
    yield from first or _across(limits, config, stages)


def _mended(config: GemmConfig, stages: int | None, settings: set[str]) -> tuple[GemmConfig, int | None]:
    """Return the configuration with harmless values for some settings."""
    if "mainloop" in settings:
        config = config.having(mainloop=memory.PAIR if config.schedule.cluster[0] % 2 == 0 else "one_sm")
    cluster = (2, 1) if config.schedule.mainloop == memory.PAIR else (1, 1)
    return rules.mended(config, stages, settings, (128, 128, 128 // config.problem.element_bytes), cluster)


# Proposals


_tiles = partial(nearest_tiles, rows=TILE_M, columns=TILE_N, depths=TILE_K)
_clusters = partial(nearest_clusters, clusters=CLUSTERS)


def _mainloops(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    for mainloop in MAINLOOPS if config.schedule.cluster[0] % 2 else MAINLOOPS[::-1]:
        yield Fix(mainloop, config.having(mainloop=mainloop), stages)


def _schedulers(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    """Yield the same scheduler with numbers that it takes, then a plain one."""
    schedule = config.schedule
    splits = min(max(schedule.splits, 1), limits.splits)
    if schedule.scheduler == "split_k":
        yield Fix(f"split_k({splits})", config.having(splits=splits), stages)
    if schedule.scheduler == "stream_k":
        yield Fix(f"stream_k(splits={splits})", config.having(splits=splits), stages)
    plain = config.having(scheduler="persistent", splits=1)
    swizzle = max((s for s in limits.swizzles if s <= schedule.swizzle), default=1)
    yield Fix(f"persistent(swizzle={swizzle})", plain.having(swizzle=swizzle), stages)


# Rules on single settings


def _single(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    schedule = config.schedule
    if schedule.mainloop not in MAINLOOPS:
        yield rules.no_mainloop("sm_100a", "multiply by tcgen05", config, MAINLOOPS, _mainloops)
    if config.problem.compute not in COMPUTES:
        yield rules.no_format("its matrix instructions multiply", config, COMPUTES, _mainloops)
    yield from rules.launches(config, MAINLOOPS)
    yield from rules.pieces(config)
    yield from _tile(limits, config)
    m, n = schedule.cluster
    if not rules.powers_of_two(schedule.cluster) or m * n > limits.cluster_blocks:
        most = limits.cluster_blocks
        note = f"extents are powers of two, and {most} blocks launch on every card"
        yield Broken("MU3008", "cluster", f"a cluster of {m}x{n} is not possible", (note,), _clusters)
    fixes = partial(_schedulers, limits=limits)
    yield from rules.swizzles(limits, config, fixes)
    yield from rules.parts_of_k(limits, config, fixes)
    yield from rules.enough_stages(stages)


def _tile(limits: Limits, config: GemmConfig) -> Iterator[Broken]:
    schedule = config.schedule
    m, n, k = schedule.tile
    if m not in TILE_M:
        note = "a matrix instruction computes 64 or 128 rows for each block"
        yield Broken("MU3001", "tile", f"tile M = {m} is neither 64 nor 128", (note,), _tiles)
    columns = 32 if schedule.mainloop == memory.PAIR else 16
    if n < 1 or n % columns:
        note = (
            f"a matrix instruction of the {schedule.mainloop} mainloop computes columns {columns} at a time"
        )
        yield Broken("MU3002", "tile", f"tile N = {n} is not a multiple of {columns}", (note,), _tiles)
    if n > limits.tensor_columns // 2:
        note = f"tensor memory has {limits.tensor_columns} columns, and two tiles must fit"
        yield Broken("MU3070", "tile", f"tile N = {n} is above {limits.tensor_columns // 2}", (note,), _tiles)
    yield from rules.whole_steps(config, "matrix", _tiles)
    yield from rules.copy_extents(limits, k, _tiles)


# Rules across settings


def _across(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    blocks = config.schedule.cluster[0]
    if config.schedule.mainloop == memory.PAIR and blocks % 2:
        yield Broken(
            "MU3071",
            "cluster",
            f"the two_sm mainloop needs pairs of blocks along M, but the cluster has {blocks}",
            ("the tensor cores of two neighbouring multiprocessors work on one instruction",),
            _clusters,
        )
    yield from rules.shared_columns(config, _clusters)
    yield from rules.exchanged_columns(config, _tiles)
    yield from _epilogue(config)
    capacity = limits.shared_memory
    fitting = memory.max_stages(config, capacity)
    notes = (
        f"a stage takes {kilobytes(memory.stage_bytes(config))} of each block",
        f"the epilogue takes {kilobytes(memory.epilogue_bytes(config))}",
    )
    if fitting < 2:
        yield rules.too_large(config, 2, memory.kernel_storage(config, 2), capacity, notes, _tiles)
    elif stages is not None and stages > fitting:
        yield rules.too_many_stages(stages, fitting, capacity, notes)


def _epilogue(config: GemmConfig) -> Iterator[Broken]:
    """Check that the epilogue's pieces divide the tile."""
    n, (rows, columns) = config.schedule.tile[1], memory.epilogue_tile(config)
    if n % columns:
        message = f"tile N = {n} is not a multiple of the {columns} columns that the epilogue works on"
        note = f"the epilogue works on {rows}x{columns} elements at a time"
        yield Broken("MU3072", "tile", message, (note,), _tiles)
