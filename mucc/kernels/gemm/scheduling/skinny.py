"""Skinny contractions: kernels for few rows or columns, bound by reading the large operand once.

The kernel is `mucc/skinny.cuh`, for every target. Its large operand is called weights here. Which operand
that is follows from the tile: of M and N the longer extent is the weights', the shorter the small operand's.
The tile is `few` rows of the small operand by `many` rows of the weights; its K is one step of one warp, of
which `stages` are under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from mucc.kernels.gemm.scheduling import rules
from mucc.kernels.gemm.scheduling.base import Family
from mucc.kernels.gemm.scheduling.config import Estimate, GemmConfig, Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.cost import epilogue_bytes, with_gather
from mucc.kernels.gemm.scheduling.operand import Narrow
from mucc.kernels.violation import Violation
from mucc.target.facts import Device, Facts

MAINLOOP = "skinny"

COMPUTE = ("bf16", "f16", "tf32", "f32", "e4m3", "e5m2", "s8", "u8")
"""Formats that the kernel multiplies in; f32 without tensor cores. Those of 8 bits have to lie along K."""

WARPS = 8
"""Warps of a block (`mucc::skinny::kWarps`); they divide K."""

SPLITS = (1, 2, 4, 8)
"""Blocks that divide K beyond that: a cluster, so the portable size is the most (`kMaxSplits`)."""

FEW = {"f32": (1, 2, 4, 8, 16)}
"""What the tile's short extent may be without tensor cores."""

FEW_TENSOR = (8, 16, 32)
"""With tensor cores: an mma.sync has 8 columns."""

MOST_STAGES = 8
ACCUMULATORS = 64
"""Registers of a thread that may hold accumulators: half leave room for two blocks in a multiprocessor."""


class Form(NamedTuple):
    """The kernel that a configuration describes, in its own terms."""

    few: int
    many: int
    step: int
    along_k: bool
    """Whether K is the weights' contiguous axis."""
    element: int
    """Bytes of an element of the small operand."""
    exact: bool
    bits: int = 0
    """Bits of an element of the weights, where they are converted; else those of the small operand."""

    @property
    def weight_bits(self) -> int:
        """Bits of an element of the weights."""
        return self.bits or 8 * self.element

    @property
    def rows(self) -> int:
        """Rows of weights that a warp's lanes cover: 16, or 128 bytes where the rows are contiguous."""
        return 16 if self.along_k else 128 // self.element

    @property
    def depth(self) -> int:
        """Elements along K that they cover: 64 bytes, or 32."""
        return 8 * (64 if self.along_k else 32) // self.weight_bits

    @property
    def groups(self) -> int:
        """Groups of eight rows of the small operand."""
        return ceil(self.few / 8)

    @property
    def accumulators(self) -> int:
        """Accumulators in a thread's registers."""
        return self.few * self.many // 8 if self.exact else 8 * self.groups * self.many // 32

    @property
    def blocks(self) -> int:
        """Blocks that share a multiprocessor's registers: two leave a thread 128."""
        if self.bits:
            return 1  # scales, and what is converted, take registers too
        return 2 if self.accumulators <= ACCUMULATORS // 2 else 1

    @property
    def step_bytes(self) -> int:
        """Bytes of a step in shared memory (`mucc::skinny::step_bytes`)."""
        return (self.many * self.weight_bits + 64 * self.groups * self.element) * self.step // 8


def form_of(config: GemmConfig) -> Form:
    """Return the skinny kernel's roles of A and B in a configuration."""
    problem = config.problem
    m, n, k = config.schedule.tile
    weights_first = weights_are_a(config.schedule.tile)
    return Form(
        min(m, n),
        max(m, n),
        k,
        problem.a.k_major if weights_first else problem.b.k_major,
        problem.element_bytes,
        problem.compute == "f32",
        problem.narrow.bits if problem.narrow else 0,
    )


def weights_are_a(tile: tuple[int, ...]) -> bool:
    """Whether A is the large operand; B is where the tile is square."""
    return tile[0] > tile[1]


def smem_bytes(config: GemmConfig, stages: int) -> int:
    """Bytes of shared memory of a block (`mucc::skinny::Shared`)."""
    form = form_of(config)
    shares = 8 * (form.many + 4) * 4
    return WARPS * max(stages * form.step_bytes, shares) + 8 * form.groups * form.many * 4


def max_stages(facts: Facts, config: GemmConfig) -> int:
    """Stages of `auto`: as many as let two blocks share a multiprocessor, at least 2 and at most 4."""
    sharing = form_of(config).blocks if config.problem.narrow else 2
    half = facts.shared_memory_of_each(sharing)
    return next((s for s in (4, 3) if smem_bytes(config, s) <= half), 2)


# Rules


def violations(facts: Facts, config: GemmConfig, stages: int | None, clusters: bool) -> list[Violation]:
    """Every rule that a configuration breaks; `clusters` says whether the target has them."""
    problem = config.problem
    if problem.compute not in COMPUTE:
        words = ", ".join(COMPUTE)
        message = f"the skinny mainloop does not multiply in {problem.compute}"
        return [Violation("MU3057", "mainloop", message, (f"it multiplies in {words}",))]
    if problem.element_bytes == 1 and not (problem.a.k_major and problem.b.k_major):
        message = "the skinny mainloop takes operands of 8 bits along K only"
        return [Violation("MU3057", "mainloop", message, ("an mma.sync takes neighbours along K in a word",))]
    if problem.narrow is not None and (found := _converted(config, problem.narrow)):
        return [found]
    if problem.rights != 1:
        message = "the skinny mainloop multiplies with one right operand, not two"
        note = "each product is a kernel of its own where `stage` names one of them"
        return [Violation("MU3059", "mainloop", message, (note,))]
    found = list(_tile(facts, config, stages))
    if config.schedule.cluster != (1, 1):
        note = "blocks that divide K form a cluster by themselves: split_k(n) says how many"
        message = "the skinny mainloop takes no cluster"
        found.append(Violation("MU3054", "cluster", message, (note,), "1x1"))
    found += _scheduler(config, clusters)
    if stages is not None and not 2 <= stages <= MOST_STAGES:
        message = f"the skinny mainloop has 2 to {MOST_STAGES} stages, not {stages}"
        note = "a stage is the step of a warp: one is multiplied while the others are copied"
        found.append(Violation("MU3056", "stages", message, (note,), "auto"))
    return found + rules.without_tma(config, stages)


def _converted(config: GemmConfig, narrow: Narrow) -> Violation | None:
    """Return the violation of a converted operand that is not the large one, or has unsuitable groups."""
    is_first = config.problem.a.narrow is not None
    if weights_are_a(config.schedule.tile) != is_first:
        *sides, k = config.schedule.tile
        short, long = sorted(sides) if sides[0] != sides[1] else (16, 64)
        fix = f"{long}x{short}x{k}" if is_first else f"{short}x{long}x{k}"
        note = "the tile's longer side is that of the weights, which the kernel converts"
        return Violation("MU3134", "tile", "the narrow operand is not the large one", (note,), fix)
    lane = 128 // narrow.bits
    if narrow.group and narrow.group % lane and lane % narrow.group:
        message = f"groups of {narrow.group} do not suit the {lane} elements along K that a lane has"
        return Violation("MU3130", "mainloop", message, ("a lane copies 16 bytes of weights",), "cooperative")
    return None


def _tile(facts: Facts, config: GemmConfig, stages: int | None) -> Iterator[Violation]:
    problem = config.problem
    form = form_of(config)
    fix = _legal_tile(facts, config, stages)
    allowed = FEW.get(problem.compute, FEW_TENSOR)
    if form.few not in allowed:
        words = ", ".join(map(str, allowed))
        message = f"the short side of a skinny tile is {form.few}, but must be one of {words}"
        note = "tensor cores take rows of the small operand by eights; a longer operand takes several tiles"
        yield Violation("MU3050", "tile", message, (note,), fix)
        return
    if form.many % form.rows:
        lies = "along K" if form.along_k else "across K"
        message = f"the long side of a skinny tile is {form.many}, which is not a multiple of {form.rows}"
        note = (
            f"a warp covers {form.rows} rows of weights that lie {lies}, {problem.element_bytes} bytes each"
        )
        yield Violation("MU3051", "tile", message, (note,), fix)
        return
    if form.step < 1 or form.step % form.depth:
        message = f"tile K = {form.step} is not a multiple of {form.depth}, as this skinny kernel needs"
        note = f"a lane copies 16 bytes, and a warp covers {form.depth} elements of K with them"
        yield Violation("MU3052", "tile", message, (note,), fix)
        return
    if form.accumulators > ACCUMULATORS:
        message = f"tile {form.few} by {form.many} takes {form.accumulators} accumulators of each thread"
        yield Violation("MU3053", "tile", message, (f"{ACCUMULATORS} is the most of skinny kernels",), fix)
        return
    if stages is not None and not 2 <= stages <= MOST_STAGES:
        return
    used = smem_bytes(config, stages or 2)
    if used > (capacity := facts.limits.shared_memory):
        message = f"{stages or 2} stages of a skinny tile take {used} bytes of shared memory"
        note = f"each of {WARPS} warps has stages of {form.step_bytes} bytes; a block has {capacity}"
        setting = "tile" if stages is None else "stages"
        yield Violation("MU3058", setting, message, (note,), fix if stages is None else "auto")


def _scheduler(config: GemmConfig, clusters: bool) -> Iterator[Violation]:
    schedule = config.schedule
    if schedule.scheduler == "stream_k" or schedule.swizzle != 1:
        what = "stream_k" if schedule.scheduler == "stream_k" else f"swizzle {schedule.swizzle}"
        message = f"the skinny mainloop takes no {what}"
        notes = ("it has a block for each tile, or with split_k(n) several that divide K",)
        yield Violation("MU3055", "scheduler", message, notes, "persistent")
    elif schedule.scheduler == "split_k" and schedule.splits > 1 and not clusters:
        note = "blocks add up their parts through a cluster's shared memory"
        message = "this target has no clusters: its skinny kernels do not divide K between blocks"
        yield Violation("MU3055", "scheduler", message, (note,), "persistent")
    elif schedule.scheduler == "split_k" and schedule.splits not in SPLITS:
        message = f"the skinny mainloop cannot divide K into {schedule.splits} parts"
        note = f"the blocks of a tile form a cluster; it has {', '.join(map(str, SPLITS))} of them"
        yield Violation("MU3055", "scheduler", message, (note,), f"split_k({_nearest(schedule.splits)})")


def _nearest(splits: int) -> int:
    return max(s for s in SPLITS if s <= max(splits, 1))


def _legal_tile(facts: Facts, config: GemmConfig, stages: int | None) -> str:
    """Return the best tile of the same roles, one that fits with that many stages if there is one."""
    form = form_of(config)
    stages = min(max(stages or 2, 2), MOST_STAGES)
    few = _few(config.problem.compute, form.few)
    tiles = list(_tiles(form._replace(few=few), weights_are_a(config.schedule.tile)))
    fitting = (t for t in tiles if smem_bytes(config.having(tile=t), stages) <= facts.limits.shared_memory)
    return "x".join(map(str, next(fitting, tiles[0])))


def _few(compute: str, wanted: int) -> int:
    """Return the least short extent of tiles that covers `rows` rows, or the largest there is."""
    allowed = FEW.get(compute, FEW_TENSOR)
    return next((x for x in allowed if x >= wanted), allowed[-1])


# Choice


def _tiles(form: Form, first: bool) -> Iterator[tuple[int, int, int]]:
    """Tiles for a short side, the best first.

    `first` says that the weights are A, which only a tile that is longer along M says.
    """
    shapes = [
        form._replace(many=rows * form.rows, step=atoms * form.depth)
        for rows, atoms in (_CONVERTED if form.bits else _ALONG_K if form.along_k else _ACROSS_K)
    ]
    for shape in sorted(shapes, key=lambda s: s.blocks, reverse=True):
        if shape.accumulators <= ACCUMULATORS and shape.many >= shape.few + first:
            yield (shape.many, shape.few, shape.step) if first else (shape.few, shape.many, shape.step)


_ALONG_K = ((2, 1), (4, 1), (2, 2), (1, 4), (1, 2), (4, 2), (1, 1))
_CONVERTED = ((2, 1), (1, 1), (1, 2), (4, 1), (2, 2))
_ACROSS_K = ((2, 1), (1, 2), (1, 1))
"""Tiles in what the lanes of a warp cover: along the weights' rows, along K."""


class Skinny(Family):
    """The choice of skinny kernels."""

    mainloops = (MAINLOOP,)
    computes = COMPUTE
    schedulers = ("persistent", "split_k")

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Tiles with the few rows that are known, or 16; nothing where the contraction is not skinny."""
        m, n = problem.m, problem.n
        told = pinned.get("mainloop") == MAINLOOP
        # Kernels that convert weights have to be pinned: no figures say when they are faster.
        suited = problem.narrow is None and not problem.is_sparse and problem.compute in COMPUTE
        other = not suited or problem.rights != 1 or problem.is_grouped
        if not told and (other or min(m or LONG, n or LONG) > SHORT):
            return
        exchanged = n is not None and (m is None or n < m)
        if problem.narrow is not None:
            exchanged = problem.a.narrow is not None
        few = _few(problem.compute, (n if exchanged else m) or UNKNOWN)
        element = operand_bytes(problem.compute)
        along_k = problem.a.k_major if exchanged else problem.b.k_major
        bits = problem.narrow.bits if problem.narrow else 0
        form = Form(few, 0, 0, along_k, element, problem.compute == "f32", bits)
        for tile in _tiles(form, exchanged):
            yield Schedule(tile, mainloop=MAINLOOP).having(pinned)

    def everything(self, facts: Facts, problem: Problem) -> Iterator[Schedule]:
        for few, many, step in product((1, 2, 4, 8, 16, 32), (16, 32, 64, 128), (8, 16, 32, 64, 128)):
            for tile in ((few, many, step), (many, few, step)):
                yield Schedule(tile, mainloop=MAINLOOP)

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Bytes over bandwidth: the weights once for each tile of the small operand, that itself through L2.

        Multiprocessors without a block do not help.
        """
        form = form_of(problem.config(schedule))
        exchanged = weights_are_a(schedule.tile)
        m, n = problem.m or LONG, problem.n or LONG
        few, many = (n, m) if exchanged else (m, n)
        k, batch = problem.k or DEEP, problem.batch or 1
        passes = ceil(few / form.few)
        tiles = ceil(many / max(form.many, 1)) * passes * batch
        weights = batch * many * k * form.weight_bits / 8
        outer = sum(epilogue_bytes(problem.epilogue))
        moved = weights * passes + batch * few * (k * form.element + many * outer)
        again = tiles * form.few * k * form.element
        datasheet = device.datasheet["dram_bandwidth"]
        bandwidth = device.measured.get("dram_bandwidth", DRAM_SHARE * datasheet)
        places = BLOCKS * device.multiprocessors
        splits = (
            schedule.splits
            if schedule.scheduler == "split_k"
            else _splits(tiles, k, form, device.multiprocessors)
        )
        blocks = tiles * splits
        busy = min(1.0, blocks / device.multiprocessors)
        sm = facts.multiprocessor
        clock = device.clock(sm)
        l2 = L2_SHARE * device.multiprocessors * sm.l2_bytes_per_cycle * clock
        efficiency = _efficiency(form)
        memory = moved / (bandwidth * busy * efficiency)
        parts = {
            "memory": memory,
            "L2": max(0.0, (weights * passes + again) / l2 - memory),
            "fill": (FILL + SHARE * (splits > 1)) * max(1.0, blocks / (2 * places)) / clock,
            "launch": facts.cost.get("launch", 0.0),
        }
        rounds = max(ceil(blocks / places), 1)
        limit = "L2" if parts["L2"] else "DRAM"
        flops = 2.0 * m * n * k * batch
        estimate = Estimate.of(parts, limit, blocks / places, rounds, places, flops, moved)
        return with_gather(facts, device, problem, estimate)

    def smem_bytes(self, config: GemmConfig, stages: int) -> int:
        return smem_bytes(config, stages)

    def max_stages(self, facts: Facts, config: GemmConfig) -> int:
        return max_stages(facts, config)

    def violations(self, facts: Facts, config: GemmConfig, stages: int | None) -> list[Violation]:
        return violations(facts, config, stages, facts.limits.cluster_blocks > 1)


def _efficiency(form: Form) -> float:
    """Return the share of a copy's bandwidth at which weights are read."""
    if not form.along_k:
        return EFFICIENCY_ACROSS
    few = min((few for few in EFFICIENCY if few >= form.few), default=max(EFFICIENCY))
    return EFFICIENCY[few] * (TWO_ATOMS if form.step > form.depth else 1.0)


def _splits(tiles: int, k: int, form: Form, multiprocessors: int) -> int:
    """As `mucc::skinny::plan` chooses."""
    splits, steps = 1, ceil(k / max(form.step, 1))
    while 2 * splits <= SPLITS[-1] and tiles * splits <= multiprocessors and steps >= 4 * WARPS * splits:
        splits *= 2
    return splits


SHORT = 16
"""Up to so many rows or columns are worth a skinny kernel without being told."""

UNKNOWN = 16
"""Rows of the small operand in a tile where they are known only at run time; more take several tiles."""

LONG, DEEP = 8192, 4096
"""Extents assumed for M and N, and for K, where they are known only at run time."""

BLOCKS = 2
"""Blocks that share a multiprocessor."""

DRAM_SHARE = 0.90
"""Of the datasheet's bandwidth, what a copy reaches on data-centre cards."""

EFFICIENCY = {8: 0.99, 16: 0.84}
"""Of that, what these kernels reach while they run, by rows of the small operand in a tile: medians of
`bench.gemm`'s skinny cases on an H200, where kernels that read weights by TMA reach all of it."""

TWO_ATOMS = 0.95
"""The part of it that is left where a warp's step is more than one load of its lanes along K."""

EFFICIENCY_ACROSS = 0.85
"""The same where the weights lie across K: it was half, before they were copied in whole lines."""

L2_SHARE = 0.6
"""Of what a target's multiprocessors can load from L2, what they get while weights pass through it."""

FILL, SHARE = 2500, 1500
"""Cycles to start and to end, and for blocks of a cluster to add up their parts."""
