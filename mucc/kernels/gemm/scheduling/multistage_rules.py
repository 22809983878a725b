"""Legality rules of the multistage mainloop: codes, the facts that decide, and legal values.

Rules on single settings come first; those that weigh settings against each other are tried once the
former hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mucc.kernels.gemm.scheduling import multistage, rules
from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.gemm.scheduling.rules import Broken, Fix, kilobytes, nearest_tiles, stage_counts
from mucc.kernels.violation import Violation
from mucc.target.facts import Limits

_EIGHT_BITS = ("e4m3", "e5m2", "s8", "u8")


def violations(limits: Limits, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one."""
    return rules.violations(partial(broken, limits), _mended, config, stages)


def no_mainloop(target: str, mainloop: str) -> Violation:
    """Return the rule against a mainloop that copies by TMA on a target without TMA."""
    note = "its contractions load by cp.async and multiply with mma.sync"
    return Violation(
        "MU3011", "mainloop", f"{target} has no {mainloop} mainloop", (note,), multistage.MAINLOOP
    )


def no_format(target: str, compute: str, computes: tuple[str, ...]) -> Violation:
    """Return the rule against a format that a target's tensor cores do not have."""
    notes = (f"it multiplies {', '.join(computes)}", *_conversion(compute))
    return Violation("MU3020", "mainloop", f"{target} does not compute in {compute}", notes)


def _conversion(compute: str) -> tuple[str, ...]:
    """How operands of 8 bits are multiplied in a format that holds all their values."""
    return ("bf16 holds every 8-bit number: `cast(x, bf16)`",) if compute in _EIGHT_BITS else ()


def broken(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    """Yield the broken rules; those across settings only if each setting is legal by itself.

    Other mainloops are judged elsewhere.
    """
    if config.schedule.mainloop != multistage.MAINLOOP:
        return
    first = [*rules.launches(config, ()), *rules.pieces(config), *_single(limits, config, stages)]
    yield from first or _across(limits, config, stages)


def _mended(config: GemmConfig, stages: int | None, settings: set[str]) -> tuple[GemmConfig, int | None]:
    """Return the configuration with harmless values for some settings."""
    return rules.mended(config, stages, settings, (64, 64, multistage.depths(config.problem.compute)[0]))


# Proposals


def _tiles(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    return nearest_tiles(
        config, stages, multistage.SIDES, multistage.SIDES, multistage.depths(config.problem.compute)
    )


def _by_wgmma(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    if limits.copy_extent:
        yield Fix("cooperative", config.having(mainloop="cooperative"), stages)


def _no_cluster(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix("1x1", config.having(cluster=(1, 1)), stages)


def _schedulers(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    """Yield the scheduler with as many splits, then one without splits."""
    splits = min(max(config.schedule.splits, 1), limits.splits)
    if splits > 1:
        mended = config.having(scheduler="split_k", splits=splits, swizzle=1)
        yield Fix(f"split_k({splits})", mended, stages)
    yield from rules.nearest_swizzles(config, stages, limits)


# Rules on single settings


def _single(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem, schedule = config.problem, config.schedule
    if problem.compute not in multistage.COMPUTES or problem.rights != 1 or problem.is_grouped:
        what = f"compute in {problem.compute}" if problem.rights == 1 else "multiply two right operands"
        if problem.is_grouped:
            what = "multiply groups of rows"
        yield Broken(
            "MU3020",
            "mainloop",
            f"the multistage mainloop does not {what}",
            (
                "it multiplies one right operand in " + ", ".join(multistage.COMPUTES),
                *_conversion(problem.compute),
            ),
            partial(_by_wgmma, limits=limits),
        )
        return
    yield from _tile(config)
    if schedule.cluster != (1, 1):
        yield Broken(
            "MU3022",
            "cluster",
            f"the multistage mainloop has no clusters, such as {schedule.cluster[0]}x{schedule.cluster[1]}",
            ("its copies go from memory to one thread block",),
            _no_cluster,
        )
    yield from _scheduler(limits, config)
    least = multistage.least_stages(config)
    if stages is not None and stages < least:
        note = f"CUTLASS has no {problem.compute} mainloop of two stages"
        yield from rules.enough_stages(stages, least, note)
    elif stages is not None and stages > 2 and multistage.through_registers(config):
        yield Broken(
            "MU3024",
            "stages",
            f"operands that are aligned to 2 bytes have a pipeline of 2 stages, not {stages}",
            ("cp.async copies 4 bytes or more: these operands pass through registers",),
            partial(stage_counts, most=2),
        )


def _tile(config: GemmConfig) -> Iterator[Broken]:
    problem = config.problem
    m, n, k = config.schedule.tile
    least = (
        ("M", m, multistage.least_side(config, problem.a.k_major), "A"),
        ("N", n, multistage.least_side(config, problem.b.k_major), "B"),
    )
    for name, size, smallest, operand in least:
        sides = [side for side in multistage.SIDES if side >= smallest]
        if size in sides:
            continue
        note = "rows of warps and of vectors are powers of two"
        if size in multistage.SIDES:
            note = f"{operand} is contiguous along {name}: a tile has rows of 128 bytes of it"
        yield Broken(
            "MU3021",
            "tile",
            f"tile {name} = {size} is none of {', '.join(map(str, sides))}, as the multistage mainloop needs",
            (note,),
            _tiles,
        )
        return
    if k not in (good := multistage.depths(problem.compute)):
        yield Broken(
            "MU3021",
            "tile",
            f"tile K = {k} is not {' or '.join(map(str, good))}, as {problem.compute} needs",
            (
                "without tensor cores, a stage has 8 elements of each row"
                if problem.compute == "f32"
                else "a stage has rows of 64 or 128 bytes",
            ),
            _tiles,
        )
    elif multistage.warp_tile(problem.compute, config.schedule.tile) is None:
        yield Broken(
            "MU3021",
            "tile",
            f"tile {m}x{n} does not divide into 2 to 8 warps",
            ("a warp computes 32 or 64 rows and columns, at most 128 results in each thread",),
            _tiles,
        )


def _scheduler(limits: Limits, config: GemmConfig) -> Iterator[Broken]:
    schedule = config.schedule
    fixes = partial(_schedulers, limits=limits)
    if schedule.scheduler == "stream_k" and schedule.splits != 1:
        yield Broken(
            "MU3023",
            "scheduler",
            f"stream_k of the multistage mainloop does not divide K into {schedule.splits} parts",
            ("its blocks share all tiles evenly, wherever that cuts K; parts of one size are split_k's",),
            fixes,
        )
    yield from rules.swizzles(limits, config, fixes)
    note = f"more parts than multiprocessors, of which there are {limits.splits}, gain nothing"
    yield from rules.parts_of_k(limits, config, fixes, note)


# Rules across settings


def _across(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem = config.problem
    count = multistage.copies(config)
    if count > multistage.MOST_COPIES:
        least = min(problem.a.granule, problem.b.granule)
        yield Broken(
            "MU3025",
            "tile",
            f"a thread makes {count} copies of an operand for a stage, of {multistage.MOST_COPIES} at most",
            (f"rows are aligned to {least} bytes, and so are copies",),
            _tiles,
        )
        return
    capacity = limits.shared_memory
    fitting = multistage.max_stages(config, capacity)
    m, n, k = config.schedule.tile
    stage = multistage.operand_storage(config, 1)
    notes = (
        f"a stage takes {kilobytes(stage)}: {m}x{k} of A and {n}x{k} of B, "
        f"{problem.element_bytes} bytes each",
        f"the tile needs {kilobytes(multistage.buffer(config, 2).bytes)} once it is computed",
    )
    least = multistage.least_stages(config)
    if fitting < least:
        used = multistage.smem_bytes(config, least)
        yield rules.too_large(config, least, used, capacity, notes, _tiles)
    elif stages is not None and stages > fitting:
        yield rules.too_many_stages(stages, fitting, capacity, notes)
