"""Legality rules of sm_90a: each has a code, the fact that decides, and a legal value.

The rules are those of CUTLASS 4.2 (static assertions, `can_implement`) and of its copy and matrix
instructions. Rules on single settings come first; those that weigh settings against each other are
tried once the former hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import lcm

from mucc.kernels.gemm.scheduling import multistage, rules
from mucc.kernels.gemm.scheduling import sm90_epilogue_rules as epilogue
from mucc.kernels.gemm.scheduling import sm90_memory as memory
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

MAINLOOPS = ("cooperative", "pingpong", "warpspecialized")
COMPUTES = ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8")
"""The formats in which wgmma multiplies operands as they are stored."""
SPLIT = ("tf32x3",)
"""Those in which it multiplies parts of operands, which kernels before it write."""
PAIR_MAINLOOPS = MAINLOOPS
"""Mainloops of kernels with two right operands."""

GROUPED = ("cooperative", "pingpong")
"""Mainloops of contractions whose rows are grouped."""

TILE_M = (64, 128, 192, 256)
TILE_N = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256)
TILE_K = (8, 16, 32, 64, 128)
SPARSE_TILE_K = (64, 128, 256)

PLAIN_COLUMNS = (16, 32, 64, 96, 128, 192, 256)
"""Columns of the wgmma instructions that CUTLASS takes by itself. Of a tile of others it makes several, each
of which reads all of A again, unless it gets its headers of all instructions, which take as long to compile
as the rest of a kernel."""


def violations(limits: Limits, config: GemmConfig, stages: int | None) -> list[Violation]:
    """Every broken rule, each with a value that is legal with the other settings where there is one."""
    problem = config.problem
    found = rules.violations(partial(broken, limits), _mended, config, stages)
    if problem.element_bytes == 1 and not (problem.a.k_major and problem.b.k_major):
        found.insert(0, _NOT_K_MAJOR)
    return found


_NOT_K_MAJOR = Violation(
    "MU3031",
    "operands",
    "8-bit operands must be contiguous along K",
    ("wgmma transposes operands of 16 bits only",),
)
"""No setting of a schedule is to blame, and none mends it: such operands are copied before the kernel."""


def broken(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    """Yield the broken rules; those across settings only if each setting is legal by itself."""
    if config.schedule.mainloop == multistage.MAINLOOP:
        from mucc.kernels.gemm.scheduling import multistage_rules

        yield from multistage_rules.broken(limits, config, stages)
        return
    first = list(_single(limits, config, stages))
    yield from first or _across(limits, config, stages)


def _mended(config: GemmConfig, stages: int | None, settings: set[str]) -> tuple[GemmConfig, int | None]:
    """Return the configuration with harmless values for some settings."""
    if "mainloop" in settings:
        divides = config.schedule.scheduler != "persistent"
        config = config.having(mainloop="cooperative" if divides else "pingpong")
    depth = (256 if config.problem.is_sparse else 128) // config.problem.element_bytes
    return rules.mended(config, stages, settings, (128, 128, depth))


# Proposals


def _tiles(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    depths = SPARSE_TILE_K if config.problem.is_sparse else TILE_K
    return nearest_tiles(config, stages, rows=TILE_M, columns=TILE_N, depths=depths)


_clusters = partial(nearest_clusters, clusters=CLUSTERS)


def _exchanges(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix(_other_way(config), config.transposed, stages)


def _other_way(config: GemmConfig) -> str:
    return "off" if config.schedule.exchanged else "on"


def _mainloops(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    for mainloop in MAINLOOPS:
        yield Fix(mainloop, config.having(mainloop=mainloop), stages)


def _in_registers(config: GemmConfig, stages: int | None) -> Iterator[Fix]:
    yield Fix(multistage.MAINLOOP, config.having(mainloop=multistage.MAINLOOP), stages)


def _schedulers(config: GemmConfig, stages: int | None, limits: Limits) -> Iterator[Fix]:
    """Yield the scheduler with a legal argument, then the persistent one, which every mainloop has."""
    schedule = config.schedule
    splits = min(max(schedule.splits, 1), limits.splits)
    if schedule.scheduler != "persistent":
        text = f"{schedule.scheduler}({'splits=' * (schedule.scheduler == 'stream_k')}{splits})"
        yield Fix(text, config.having(splits=splits, swizzle=1), stages)
    yield from rules.nearest_swizzles(config, stages, limits)


# Rules on single settings


def _grouped(limits: Limits, config: GemmConfig) -> Iterator[Broken]:
    schedule = config.schedule
    if schedule.scheduler != "persistent":
        yield Broken(
            "MU3091",
            "scheduler",
            f"a grouped contraction has no {schedule.scheduler} scheduler",
            ("how many tiles there are is known on the device only, so K is not divided",),
            partial(_schedulers, limits=limits),
        )
    if schedule.exchanged:
        yield Broken(
            "MU3092",
            "exchange",
            "a grouped contraction cannot exchange its operands",
            ("groups begin at any row: rows of a group are stored one by one, columns could not be",),
            _exchanges,
        )


def _single(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem, schedule = config.problem, config.schedule
    if problem.is_grouped:
        yield from _grouped(limits, config)
    if schedule.mainloop not in MAINLOOPS:
        yield rules.no_mainloop("sm_90a", "load by TMA", config, MAINLOOPS, _mainloops)
    if (broken := _operands(limits, config)) is not None:
        yield broken
    yield from rules.launches(config, MAINLOOPS)
    yield from _tile(limits, config, stages)
    yield from _cluster(limits, config, stages)
    yield from _scheduler(limits, config, stages)
    yield from rules.enough_stages(stages)


def _operands(limits: Limits, config: GemmConfig) -> Broken | None:
    """Return the first rule about formats and operands that a configuration breaks; None without one."""
    problem, schedule = config.problem, config.schedule
    if problem.compute not in (*COMPUTES, *SPLIT):
        return rules.no_format("wgmma multiplies", config, (*COMPUTES, *SPLIT), _in_registers)
    if problem.compute in SPLIT and (problem.is_grouped or problem.rights == 2 or problem.is_sparse):
        return _only_plain(config)
    if problem.b.is_sparse:
        note = f"wgmma takes A sparse: the product is computed with exchange = {_other_way(config)}"
        message = "the sparse operand must be the first one of the kernel"
        return Broken("MU3140", "exchange", message, (note,), _exchanges)
    if problem.rights == 2 and schedule.exchanged:
        note = "a thread gets both accumulators of an element only where the two share its row of A"
        message = "a kernel with two right operands cannot exchange them with the left one"
        return Broken("MU3060", "exchange", message, (note,), _exchanges)
    if problem.epilogue.ranges and schedule.exchanged:
        note = "each range is a row-major matrix, which TMA stores from tiles that lie like it"
        message = "a kernel that stores ranges of columns cannot exchange its operands"
        return Broken("MU3061", "exchange", message, (note,), _exchanges)
    if problem.epilogue.group and (broken := _groups(limits, config)) is not None:
        return broken
    if memory.uses_register_operand(config) and problem.a.k_major:
        first, second = ("B", "A") if schedule.exchanged else ("A", "B")
        return Broken(
            "MU3016",
            "exchange",
            f"{problem.compute} operands lie the wrong way round: {first} is contiguous along K, "
            f"but {second} is not",
            (
                f"wgmma takes {8 * problem.element_bytes}-bit operands contiguous along K; "
                "only the first may pass through registers",
            ),
            _exchanges,
        )
    return None


def _groups(limits: Limits, config: GemmConfig) -> Broken | None:
    """Check a kernel that reduces groups of columns in registers, which are whole in one tile."""
    schedule, group = config.schedule, config.problem.epilogue.group
    note = "the lanes of a warp that hold a row of the tile reduce them"
    if schedule.exchanged:
        message = "a kernel that reduces groups of columns cannot exchange its operands"
        return Broken("MU3061", "exchange", message, (note,), _exchanges)
    if schedule.scheduler != "persistent":
        message = f"a kernel that reduces groups of columns has no {schedule.scheduler} scheduler"
        return Broken("MU3061", "scheduler", message, (note,), partial(_schedulers, limits=limits))
    if schedule.tile[1] > 0 and schedule.tile[1] % lcm(group, memory.epilogue_tile(config)[1]):
        message = f"tile N = {schedule.tile[1]} does not have whole groups of {group} columns"
        return Broken("MU3061", "tile", message, (note,), _tiles)
    return None


def _only_plain(config: GemmConfig) -> Broken:
    """Products of parts are for one left and one right operand."""
    problem = config.problem
    what = (
        "groups of rows"
        if problem.is_grouped
        else "a sparse operand"
        if problem.is_sparse
        else "two right operands"
    )
    return Broken(
        "MU3020",
        "mainloop",
        f"the {config.schedule.mainloop} mainloop does not compute in {problem.compute} with {what}",
        ("operands of plain products only are split into parts",),
        _in_registers,
    )


def _tile(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem, schedule = config.problem, config.schedule
    m, n, k = schedule.tile
    fixes = _tiles
    rows = epilogue.ROWS.get(schedule.mainloop, 64)
    if m < 1 or m % rows:
        yield Broken(
            "MU3001",
            "tile",
            f"tile M = {m} is not a multiple of {rows}, as the {schedule.mainloop} mainloop needs",
            (
                "the two consumer warp groups of a cooperative mainloop compute 64 rows each"
                if rows == 128
                else "a wgmma instruction computes 64 rows",
            ),
            fixes,
        )
    elif problem.is_sparse and not rules.powers_of_two((m,)):
        note = "CUTLASS divides the metadata of a tile between warps in halves: 64, 128 or 256 rows"
        message = f"tile M = {m} is not a power of two, as a sparse operand needs"
        yield Broken("MU3001", "tile", message, (note,), fixes)
    columns = max(8 * problem.element_bytes, 16)
    if n < 1 or n % columns:
        yield Broken(
            "MU3002",
            "tile",
            f"tile N = {n} is not a multiple of {columns}, as {8 * problem.element_bytes}-bit operands need",
            (f"B and the result are staged in swizzle patterns of {columns} columns",)
            if problem.element_bytes == 1
            else (f"a stage of B must be whole swizzle patterns, {columns} columns each",),
            fixes,
        )
    yield from _k_rule(config, k)
    yield from _mixed(config)
    yield from _block_scales(config)
    yield from rules.copy_extents(limits, max(schedule.tile), fixes)


MIXED_K = (64, 128)
"""Steps along K of mainloops that convert A: rows of narrow numbers of 32 bytes and more."""


def mixes_group(group: int, k: int) -> bool:
    """Whether so many elements along K may share a scale of a narrow operand where a tile has `k` of them."""
    return group > 0 and (group % k == 0 or (k % group == 0 and group % 16 == 0))


def _mixed(config: GemmConfig) -> Iterator[Broken]:
    """Check the tile of a mainloop that converts an operand, and which operand that is."""
    if (narrow := config.problem.narrow) is None:
        return
    k = config.schedule.tile[2]
    if config.problem.a.narrow is None:
        yield Broken(
            "MU3131",
            "exchange",
            "the narrow operand must be the first of the kernel's",
            ("wgmma takes only its first operand from registers, where weights are converted",),
            _exchanges,
        )
    if k not in MIXED_K or (narrow.group and not mixes_group(narrow.group, k)):
        words = " or ".join(map(str, MIXED_K))
        note = f"weights are converted in steps of {words} elements along K"
        if narrow.group:
            note += f", which are whole groups of {narrow.group}, or a group is several of them"
        yield Broken("MU3132", "tile", f"tile K = {k} does not suit converted weights", (note,), _tiles)


BLOCK_MAINLOOPS = ("cooperative", "pingpong")
"""The mainloops that scale parts of a sum."""

BLOCK_K = 128
"""Elements along K that share a scale: the step of such a mainloop (CUTLASS: ScalePromotionInterval)."""


def _block_scales(config: GemmConfig) -> Iterator[Broken]:
    """Check the tile where blocks are scaled: whole blocks, and one of them along K."""
    schedule = config.schedule
    if config.problem.blocks is None:
        return
    if schedule.mainloop not in BLOCK_MAINLOOPS:
        yield Broken(
            "MU3034",
            "mainloop",
            f"the {schedule.mainloop} mainloop takes no block scales",
            ("they are applied to parts of the sum, which " + " and ".join(BLOCK_MAINLOOPS) + " add up",),
            _mainloops,
        )
    m, n, k = schedule.tile
    rows, columns = config.problem.blocks
    if m % rows or n % columns or k != BLOCK_K:
        yield Broken(
            "MU3032",
            "tile",
            f"tile {m}x{n}x{k} is not made of blocks of {rows} rows and {columns} columns, one along K",
            (f"scales hold for {BLOCK_K} elements along K, which is the step of the mainloop",),
            _tiles,
        )


def _k_rule(config: GemmConfig, k: int) -> Iterator[Broken]:
    """Check the tile's K extent."""
    problem = config.problem
    if memory.transposes_b(config):
        if k != 32:
            note = "neither tf32 operand is contiguous along K: B is transposed 128 bytes at a time"
            yield Broken("MU3014", "tile", f"tile K = {k} must be 32 for these operands", (note,), _tiles)
    elif memory.uses_register_operand(config):
        if k < 1 or k % 32:
            note = "tf32 A is not contiguous along K: it passes through registers in blocks of 32"
            message = f"tile K = {k} is not a multiple of 32, as these operands need"
            yield Broken("MU3014", "tile", message, (note,), _tiles)
    elif problem.is_sparse and not _holds_metadata(config, k):
        what = "64" if problem.element_bytes == 4 else "a multiple of 128"
        depth = what.rpartition(" ")[2]
        note = f"metadata is packed in blocks of 64 rows and {depth} columns, zeros counted"
        message = f"tile K = {k} is not {what}, as the metadata of sparse {problem.compute} operands needs"
        yield Broken("MU3141", "tile", message, (note,), _tiles)
    elif steps := list(rules.whole_steps(config, "wgmma", _tiles)):
        yield from steps
    elif (
        problem.element_bytes == 1
        and promotes(config)
        and PROMOTION % (k // (64 if problem.is_sparse else 32))
    ):
        note = (
            f"sums are added up in f32 every {PROMOTION} instructions, 32 elements of K each; "
            "with acc=fast never"
        )
        message = f"tile K = {k} is none of 32, 64 and 128, as {problem.compute} needs"
        yield Broken("MU3030", "tile", message, (note,), _tiles)


def _holds_metadata(config: GemmConfig, k: int) -> bool:
    """Whether CUTLASS wants metadata in the order in which it is packed: that depends on min(tile K, 128)."""
    return k == 64 if config.problem.element_bytes == 4 else k > 0 and k % 128 == 0


def _cluster(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    m, n = config.schedule.cluster
    fixes = _clusters
    if not rules.powers_of_two(config.schedule.cluster):
        message = f"cluster {m}x{n} is not made of powers of two"
    elif m * n > limits.cluster_blocks:
        message = f"cluster {m}x{n} has {m * n} thread blocks, but {limits.cluster_blocks} are the most"
    else:
        return
    note = f"every sm_90a card launches clusters of up to {limits.cluster_blocks} blocks"
    yield Broken("MU3008", "cluster", message, (note,), fixes)


def _scheduler(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    schedule = config.schedule
    fixes = partial(_schedulers, limits=limits)
    if schedule.scheduler != "persistent" and schedule.mainloop in (
        "pingpong",
        "warpspecialized",
    ):
        yield Broken(
            "MU3010",
            "scheduler",
            f"the {schedule.mainloop} mainloop cannot divide K: it takes no {schedule.scheduler} scheduler",
            ("only the cooperative mainloop adds up partial tiles of several thread blocks",),
            fixes,
        )
    if schedule.mainloop == "warpspecialized" and schedule.swizzle != 1:
        yield Broken(
            "MU3012",
            "scheduler",
            "the warpspecialized mainloop has no swizzle",
            ("it launches one thread block per tile, in the order of the grid",),
            fixes,
        )
    else:
        yield from rules.swizzles(limits, config, fixes)
    yield from rules.parts_of_k(limits, config, fixes)


PROMOTION = 4
"""After so many instructions along K sums of 8-bit floats are added up in f32: mma_promotion_interval."""


def promotes(config: GemmConfig) -> bool:
    """Whether sums are kept twice: by the tensor cores, and in f32."""
    problem = config.problem
    return problem.compute in SPLIT or (problem.compute in ("e4m3", "e5m2") and not problem.fast_accumulation)


_KEPT_TWICE = "sums of 8-bit floats are kept twice; with acc=fast they are kept once"
_KEPT_EXACTLY = "sums are kept twice: tensor cores drop low bits of theirs, which are added up in f32 in time"


# Rules across settings


def _across(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem = config.problem
    tiles = _tiles
    m, n, k = config.schedule.tile
    threads = 256 if config.schedule.mainloop == "cooperative" else 128
    accumulators = m * config.columns // threads * (2 if promotes(config) else 1)
    operand = m * k // threads if memory.uses_register_operand(config) else _converted(config, threads)
    if (registers := accumulators + operand) > limits.accumulator_registers:
        each = " for each of the two right operands" if problem.rights == 2 else ""
        notes = (f"{m} x {n} accumulators{each} are shared by {threads} threads",)
        if operand:
            why = "is converted there" if problem.narrow else "is not contiguous along K"
            notes += (f"{operand} registers hold A, which {why}",)
        if promotes(config):
            notes += (_KEPT_TWICE if problem.element_bytes == 1 else _KEPT_EXACTLY,)
        yield Broken(
            "MU3006",
            "tile",
            f"tile {m}x{n} takes {registers} registers of each thread for operands and results, "
            f"but {limits.accumulator_registers} are free",
            notes,
            tiles,
        )
    yield from rules.shared_columns(config, _clusters)
    if pieces := list(epilogue.piece(config)):
        yield from pieces
        return
    yield from list(epilogue.row_reduction(config, tiles)) or rules.exchanged_columns(config, tiles)
    yield from epilogue.narrow_pieces(config, tiles)
    yield from _shared_memory(limits, config, stages)


def _converted(config: GemmConfig, threads: int) -> int:
    """Count registers of a thread for a converted operand: before, after, its scales and zeros."""
    if (narrow := config.problem.narrow) is None:
        return 0
    m, _, k = config.schedule.tile
    groups = max(1, k // narrow.group) if narrow.group else 0
    vectors = 2 * (1 + narrow.zeros) * groups  # of this tile and the next
    return m * k * (narrow.bits + 16) // 32 // threads + vectors * m * 4 // threads


def _shared_memory(limits: Limits, config: GemmConfig, stages: int | None) -> Iterator[Broken]:
    problem = config.problem
    capacity = limits.shared_memory
    fitting = memory.max_stages(config, capacity)
    m, _, k = config.schedule.tile
    half = ", of which half is there," if problem.is_sparse else ""
    each = f"{problem.element_bytes} bytes each"
    if problem.narrow:
        each = f"{problem.a_bytes:g} and {problem.b_bytes:g} bytes each"
    notes = (
        f"a stage takes {kilobytes(memory.stage_bytes(config))}: {m}x{k} of A{half} and {config.columns}x{k} "
        f"of B, {each}",
        f"the epilogue takes {kilobytes(memory.epilogue_storage(config).size)}",
    )
    if fitting < 2:
        yield rules.too_large(config, 2, memory.kernel_storage(config, 2), capacity, notes, _tiles)
    elif stages is not None and stages > fitting:
        yield rules.too_many_stages(stages, fitting, capacity, notes)
