"""Rules of targets: what is broken, what decides, and a value of the setting to blame that is legal.

A target says which rules a configuration breaks; what is common to all, finding a fix that is itself legal,
is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import log2
from typing import NamedTuple

from mucc.kernels.gemm.scheduling.config import GemmConfig
from mucc.kernels.violation import Violation
from mucc.target.facts import Limits

CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4), (8, 1), (1, 8))
"""Clusters of up to 8 blocks, which is what every card with clusters launches."""


class Fix(NamedTuple):
    """A configuration and stage count, and the value of a setting that leads to it."""

    text: str
    config: GemmConfig
    stages: int | None


Fixes = Callable[[GemmConfig, int | None], Iterator[Fix]]
"""Proposes values for a setting of a configuration, the most likely first."""


class Broken(NamedTuple):
    """A broken rule, and proposals for the setting to blame."""

    code: str
    setting: str
    message: str
    notes: tuple[str, ...]
    fixes: Fixes


Rules = Callable[[GemmConfig, int | None], Iterator[Broken]]
"""The rules that a configuration breaks."""

Mending = Callable[[GemmConfig, int | None, set[str]], tuple[GemmConfig, int | None]]
"""A configuration with harmless values for some settings."""


def violations(rules: Rules, mended: Mending, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one.

    Those are left out that no longer hold once other settings are mended: pieces of an epilogue that do not
    suit a mainloop which cannot stay, say.
    """
    found = list(rules(config, stages))
    causes = [r for r in found if not _follows(rules, mended, r, found, config, stages)]
    return [
        Violation(r.code, r.setting, r.message, r.notes, _fix(rules, mended, r, found, config, stages))
        for r in causes or found
    ]


def _follows(
    rules: Rules,
    mended: Mending,
    rule: Broken,
    found: list[Broken],
    config: GemmConfig,
    stages: int | None,
) -> bool:
    """Whether a configuration is legal once all settings but the one that a rule blames are mended."""
    others = {other.setting for other in found} - {rule.setting}
    return bool(others) and not list(rules(*_without(mended, config, stages, others)))


def _fix(
    rules: Rules,
    mended: Mending,
    rule: Broken,
    found: list[Broken],
    config: GemmConfig,
    stages: int | None,
) -> str | None:
    """Return the first proposal that breaks only rules for which other settings are to blame.

    Where a pinned stage count allows none the count has to give way, and then every other setting.
    """
    others = [other for other in found if other.setting != rule.setting]
    settings = {other.setting for other in others}
    config, stages = _without(mended, config, stages, settings)
    tolerated = {other.code for other in others}
    second: str | None = None
    for pinned in dict.fromkeys((stages, None)):
        for fix in rule.fixes(config, pinned):
            left = list(rules(fix.config, fix.stages))
            if {b.code for b in left} <= tolerated:
                return fix.text
            if second is None and all(b.setting != rule.setting for b in left):
                second = fix.text
    return second


def _without(
    mended: Mending, config: GemmConfig, stages: int | None, settings: set[str]
) -> tuple[GemmConfig, int | None]:
    """Replace settings by harmless values; those that every target may leave out are left out."""
    if "pdl" in settings:
        config = config.having(pdl=False)
    if "epilogue" in settings:
        config = config.having(epilogue_tile=None)
    return mended(config, stages, settings)


def mended(
    config: GemmConfig,
    stages: int | None,
    settings: set[str],
    tile: tuple[int, int, int],
    cluster: tuple[int, int] = (1, 1),
) -> tuple[GemmConfig, int | None]:
    """Return the configuration with harmless values for some settings; the kernel says which tile is
    harmless.
    """
    if "cluster" in settings:
        config = config.having(cluster=cluster)
    if "scheduler" in settings:
        config = config.having(scheduler="persistent", splits=1, swizzle=1)
    if "exchange" in settings:
        config = config.transposed
    if "tile" in settings:
        config = config.having(tile=tile)
    return config, None if "stages" in settings else stages


# Rules that targets share


def no_mainloop(target: str, does: str, config: GemmConfig, mainloops: Iterable[str], fixes: Fixes) -> Broken:
    """Return the rule against a mainloop that the target does not have."""
    message = f"{target} has no {config.schedule.mainloop} mainloop"
    note = f"contractions of {target} {does}; its mainloops are {', '.join(mainloops)}"
    return Broken("MU3011", "mainloop", message, (note,), fixes)


def no_format(multiply: str, config: GemmConfig, computes: Iterable[str], fixes: Fixes) -> Broken:
    """Return the rule against a format in which the mainloop does not compute; `multiply` names its
    instructions.
    """
    message = f"the {config.schedule.mainloop} mainloop does not compute in {config.problem.compute}"
    return Broken("MU3020", "mainloop", message, (f"{multiply} {', '.join(computes)}",), fixes)


def whole_steps(config: GemmConfig, instruction: str, fixes: Fixes) -> Iterator[Broken]:
    """Check that a tile's K is a whole number of instructions of 32 bytes."""
    problem = config.problem
    k, step = config.schedule.tile[2], 32 // problem.element_bytes
    if k < 1 or k % step:
        note = f"a {instruction} instruction takes 32 bytes of K, {step} {problem.compute} elements"
        message = f"tile K = {k} is not a multiple of {step}, as {problem.compute} needs"
        yield Broken("MU3003", "tile", message, (note,), fixes)


def copy_extents(limits: Limits, extent: int, fixes: Fixes) -> Iterator[Broken]:
    """One TMA copy must move a tile's extent."""
    if extent > limits.copy_extent:
        message = f"tile extent {extent} is larger than the {limits.copy_extent} that one copy moves"
        note = f"a TMA box has at most {limits.copy_extent} elements along each axis"
        yield Broken("MU3007", "tile", message, (note,), fixes)


def powers_of_two(sizes: Iterable[int]) -> bool:
    """Whether all sizes are powers of two."""
    return all(size > 0 and size & (size - 1) == 0 for size in sizes)


def shared_columns(config: GemmConfig, fixes: Fixes) -> Iterator[Broken]:
    """Check that the blocks of a cluster along M load equal parts of B."""
    schedule = config.schedule
    blocks, rows = schedule.cluster[0], 8 * schedule.cluster[0]
    if config.columns % rows:
        message = f"a cluster of {blocks} blocks along M cannot share tile N = {schedule.tile[1]}"
        note = f"each block loads an equal part of B, in groups of 8: N must be a multiple of {rows}"
        yield Broken("MU3009", "cluster", message, (note,), fixes)


def exchanged_columns(config: GemmConfig, fixes: Fixes) -> Iterator[Broken]:
    """Check for tiles of which CUTLASS's row reduction mixes up the columns.

    Sm90RowReduction of CUTLASS 4.2 has threads exchange halves of their columns, which it divides by 64. What
    remains lands in other columns; tiles below 64 are added up in another way.
    """
    problem, columns = config.problem, config.schedule.tile[1]
    if problem.epilogue.row_reductions and problem.rights == 1 and columns >= 64 and columns % 64:
        message = f"CUTLASS reduces the rows of a tile with N = {columns} into the wrong columns"
        note = "it does so right where N is below 64 or a multiple of 64"
        yield Broken("MU3018", "tile", message, (note,), fixes)


def swizzles(limits: Limits, config: GemmConfig, fixes: Fixes) -> Iterator[Broken]:
    """Check that the scheduler has the swizzle."""
    if config.schedule.swizzle not in limits.swizzles:
        message = f"swizzle {config.schedule.swizzle} is none of {', '.join(map(str, limits.swizzles))}"
        note = "the scheduler walks blocks of tiles whose side is a power of two"
        yield Broken("MU3012", "scheduler", message, (note,), fixes)


def parts_of_k(limits: Limits, config: GemmConfig, fixes: Fixes, note: str | None = None) -> Iterator[Broken]:
    """K is divided into at most one part for each multiprocessor; `note` says why otherwise."""
    splits = config.schedule.splits
    if not 1 <= splits <= limits.splits:
        message = f"K cannot be divided into {splits} parts: 1 to {limits.splits} are possible"
        usual = f"the scheduler uses at most one part per multiprocessor, and there are {limits.splits}"
        yield Broken("MU3013", "scheduler", message, (note or usual,), fixes)


def enough_stages(stages: int | None, least: int = 2, note: str = "") -> Iterator[Broken]:
    """Check that the pipeline has at least two stages; `note` says why if more are needed."""
    if stages is not None and stages < least:
        message = f"a pipeline needs at least {least} stages, not {stages}"
        why = "one stage is filled while the other is consumed" if least == 2 else note
        yield Broken("MU3017", "stages", message, (why,), partial(stage_counts, most=least))


def too_large(
    config: GemmConfig, least: int, used: int, capacity: int, notes: tuple[str, ...], fixes: Fixes
) -> Broken:
    """Not even the least number of stages fits into shared memory: `used` and `capacity` are in bytes."""
    tile = "x".join(map(str, config.schedule.tile))
    message = (
        f"tile {tile} does not fit: {least} stages take {kilobytes(used)} of {kilobytes(capacity)} "
        "of shared memory"
    )
    return Broken("MU3005", "tile", message, notes, fixes)


def too_many_stages(stages: int, fitting: int, capacity: int, notes: tuple[str, ...]) -> Broken:
    """More stages than fit into shared memory of so many bytes."""
    message = f"pipeline needs {stages} stages but {fitting} fit in {capacity // 1024} KB of shared memory"
    return Broken("MU3004", "stages", message, notes, partial(stage_counts, most=fitting))


def launches(config: GemmConfig, mainloops: Iterable[str]) -> Iterator[Broken]:
    """Programmatic dependent launch is for kernels that wait before they read anything."""
    problem, schedule = config.problem, config.schedule
    if not schedule.pdl:
        return
    if schedule.mainloop not in mainloops or problem.is_grouped:
        message = f"{_subject(config)} cannot start before the kernel before it has ended"
        note = "only kernels that load by TMA wait for that kernel before they read"
    elif problem.epilogue.scalars:
        message = "the epilogue reads a number from memory before it waits for the kernel before it"
        note = "CUTLASS fetches numbers as a kernel starts; a number passed by value is in no memory"
    elif schedule.scheduler != "persistent":
        kernel = f"a kernel with a {schedule.scheduler} scheduler"
        message = f"{kernel} cannot start before the kernel before it has ended"
        note = "the counters by which its blocks share tiles are cleared between the two kernels"
    else:
        return
    yield Broken("MU3073", "pdl", message, (note,), _no_pdl)


def _no_pdl(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix("off", config.having(pdl=False), stages)


def unreproducible(config: GemmConfig) -> list[Violation]:
    """Check that what is to be reproducible adds in an order that nothing but K decides.

    Where `split_k` divides K, parts are added in order; `stream_k` divides it by how many tiles there are.
    """
    if not config.schedule.reproducible:
        return []
    if config.schedule.scheduler == "stream_k":
        message = "a stream_k scheduler adds parts of K that depend on the number of rows"
        note = "it divides tiles among the blocks that the card runs at a time"
        return [Violation("MU3075", "scheduler", message, (note,), "persistent")]
    if config.problem.epilogue.unordered_sums:
        message = "sums over results are added by atomics, in an order that differs from run to run"
        note = "the blocks of a contraction end in any order, and each adds what it has to a sum in memory"
        help = (
            "store the product between two kernels: `stage y = a @ b`, and sum y, in a kernel with an order"
        )
        return [Violation("MU3075", "reproducible", message, (note,), helps=(help,))]
    return []


def pieces(config: GemmConfig) -> Iterator[Broken]:
    """Only epilogues of CUTLASS that store by TMA work on pieces of a tile that can be chosen."""
    if config.schedule.epilogue_tile is not None:
        message = f"the epilogue tile of {_subject(config)} cannot be chosen"
        note = "only the epilogues of sm_90a that store by TMA work on pieces of any width"
        yield Broken("MU3074", "epilogue", message, (note,), _automatic_pieces)


def _automatic_pieces(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix("auto", config.having(epilogue_tile=None), stages)


def _subject(config: GemmConfig) -> str:
    if config.problem.is_grouped:
        return "a grouped contraction"
    return f"the {config.schedule.mainloop} mainloop"


def without_tma(config: GemmConfig, stages: int | None) -> list[Violation]:
    """Check for settings of kernels that load and store by TMA in a kernel that does neither."""

    def broken(config: GemmConfig, stages: int | None) -> Iterator[Broken]:
        yield from launches(config, ())
        yield from pieces(config)

    return violations(broken, lambda config, stages, _: (config, stages), config, stages)


# Proposals that targets share


def nearest_tiles(
    config: GemmConfig, stages: int | None, rows: Iterable[int], columns: Iterable[int], depths: Iterable[int]
) -> Iterator[Fix]:
    """Tiles, the closest to the present one first; of equally close ones the smaller."""

    def distance(tile: tuple[int, int, int]) -> tuple[float, int]:
        steps = sum(abs(log2(x / max(x0, 1))) for x, x0 in zip(tile, config.schedule.tile, strict=True))
        return steps, tile[0] * tile[1] * tile[2]

    m, n, k = (max(extent, 1) for extent in config.schedule.tile)
    tiles = ((x, y, z) for x in {*rows, m} for y in {*columns, n} for z in {*depths, k})
    for tile in sorted(tiles, key=distance):
        yield Fix(f"{tile[0]}x{tile[1]}x{tile[2]}", config.having(tile=tile), stages)


def nearest_clusters(
    config: GemmConfig, stages: int | None, clusters: Iterable[tuple[int, int]]
) -> Iterator[Fix]:
    """Clusters, the closest to the present one first."""
    m, n = config.schedule.cluster
    for cluster in sorted(clusters, key=lambda c: (abs(c[0] - m) + abs(c[1] - n), c[0] * c[1])):
        yield Fix(f"{cluster[0]}x{cluster[1]}", config.having(cluster=cluster), stages)


def nearest_swizzles(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    """Yield persistent schedulers, the one with the closest swizzle first."""
    for swizzle in sorted(limits.swizzles, key=lambda s: (abs(s - config.schedule.swizzle), s)):
        text = f"persistent(swizzle={swizzle})" if swizzle > 1 else "persistent"
        yield Fix(text, config.having(scheduler="persistent", splits=1, swizzle=swizzle), stages)


def stage_counts(config: GemmConfig, stages: int | None, most: int) -> Iterator[Fix]:
    """Yield the most stages that fit, then `auto`."""
    yield Fix(str(most), config, most)
    yield Fix("auto", config, None)


def kilobytes(size: int) -> str:
    """Return a size in KB, with one decimal if it is not whole."""
    return f"{size / 1024:.1f}".removesuffix(".0") + " KB"
