"""Contractions around CUTLASS 2.x mainloops: what fits a target, and what is worth trying.

The kernel is `mucc/multistage.cuh`, for every target from Ampere on: a block computes one tile, its warps
load operands through cp.async (or, where rows are aligned to 2 bytes only, through registers) and multiply
with mma.sync, or for f32 without tensor cores. Here is what follows from a tile: warps, shared memory, time.
Sources, below `cutlass/gemm/threadblock/`: `default_mma_core_{sm80,sm75,simt}.h`, `mma_base.h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from mucc.kernels.gemm.scheduling.base import Family
from mucc.kernels.gemm.scheduling.config import (
    Estimate,
    GemmConfig,
    Problem,
    Schedule,
    Violation,
    operand_bytes,
)
from mucc.kernels.gemm.scheduling.cost import Extents, with_gather
from mucc.target.facts import Device, Facts

MAINLOOP = "multistage"

COMPUTES = ("bf16", "f16", "tf32", "tf32x3", "f32")

SIDES = (32, 64, 128, 256)
"""What M and N of a tile may be."""

WARP_TILES = ((64, 64), (64, 32), (32, 64), (32, 32))
"""Tiles of a warp, the largest first."""

SMALLER = {"tf32x3": 2048, "f32": 2048}
"""The area of a warp's tile that suits a format, where it is less than 64x64: splitting operands takes
registers, and without tensor cores more warps hide more."""

INSTRUCTION_K = {"bf16": 16, "f16": 16, "tf32": 8, "tf32x3": 8, "f32": 1}
"""K of one multiplication: `mma.sync.m16n8k16` and `m16n8k8`, or none."""

SHARED_BANDWIDTH = 128
"""Bytes that a multiprocessor reads from shared memory per cycle: 32 banks of 4 bytes."""

LATENCY = 3000
"""Cycles of a tile that no other work of its block hides: filling the pipeline, the epilogue."""

EXPOSED = 0.2
"""Of what does not bind a tile, the part that no other work hides."""

SPLITTING = 0.35
"""Of the rate of mma.sync, what tf32x3 reaches beside splitting each operand that a thread has loaded: 28 to
40 TFLOP/s, measured on an H200."""

LOADS_PER_CYCLE = 16
"""Elements per cycle that a multiprocessor loads through registers one by one: 32 lanes in two cycles."""


def warp_tile(compute: str, tile: tuple[int, int, int]) -> tuple[int, int] | None:
    """Rows and columns of a warp: those that make four to eight warps of a tile, or else two.

    Larger ones read less from shared memory, up to the area that suits the format. None where none fit.
    """
    m, n, _ = tile
    fitting = [(w, h) for w, h in WARP_TILES if m % w == 0 and n % h == 0]
    suited = SMALLER.get(compute, 4096)

    def warps(warp: tuple[int, int]) -> int:
        return (m // warp[0]) * (n // warp[1])

    small = [warp for warp in fitting if warp[0] * warp[1] <= suited]
    large = [warp for warp in fitting if warp not in small]
    for least in (4, 2):
        for warp in (*small, *reversed(large)):
            if least <= warps(warp) <= 8:
                return warp
    return None


def depths(compute: str) -> tuple[int, ...]:
    """What K of a tile may be: 64 or 128 bytes; of f32 without tensor cores 8 elements."""
    if compute == "f32":
        return (8,)
    size = operand_bytes(compute)
    return 64 // size, 128 // size


def least_side(config: GemmConfig, k_major: bool) -> int:
    """The least M or N of a tile: 128 bytes for tensor cores where rows of the operand lie along it."""
    return SIDES[0] if k_major or config.compute == "f32" else max(SIDES[0], 128 // config.element_bytes)


MOST_COPIES = 64
"""Copies of an operand that a thread can have in a stage: it keeps a bit for each, in four words of 16."""


def copies(config: GemmConfig) -> int:
    """How many copies of an operand a thread has in a stage, of the one that has more."""
    warp = warp_tile(config.compute, config.tile)
    assert warp is not None
    m, n, k = config.tile
    threads = 32 * (m // warp[0]) * (n // warp[1])
    single = config.compute == "f32"
    bytes = [config.element_bytes if single else granule for granule in config.granules[:2]]
    return (
        max(side * k * config.element_bytes // size for side, size in zip((m, n), bytes, strict=True))
        // threads
    )


def through_registers(config: GemmConfig) -> bool:
    """Whether operands are too unaligned for cp.async, which copies 4 bytes at least."""
    return min(config.granules.a, config.granules.b) < 4


def least_stages(config: GemmConfig) -> int:
    """Two, but of tf32 three: CUTLASS's mainloop of two stages would multiply its operands in f16."""
    return 3 if config.compute in ("tf32", "tf32x3") else 2


# Shared memory


class Buffer(NamedTuple):
    """The tile in shared memory, between the product and what follows: lines of so many floats."""

    lines: int
    pitch: int

    @property
    def bytes(self) -> int:
        return 4 * self.lines * self.pitch


def operand_storage(config: GemmConfig, stages: int) -> int:
    """`MmaBase::SharedStorage` in bytes."""
    m, n, k = config.tile
    if config.compute == "f32" and stages == 2:
        # Elements are transposed on their way to shared memory: padding keeps them in different banks.
        padding = 32 // k
        m, n = m + padding * config.a_k_major, n + padding * config.b_k_major
    return (m + n) * k * stages * config.element_bytes


def buffer(config: GemmConfig, stages: int) -> Buffer:
    """What of the tile is in shared memory at a time: `mucc::multistage::Kernel::piece_lines`."""
    m, n, _ = config.tile
    warp = warp_tile(config.compute, config.tile)
    assert warp is not None
    columns = config.epilogue.destination_is_col_major
    side, along, whole = (n, m, warp[1]) if columns else (m, n, warp[0])
    pitch = along + (4 if columns else 8)
    least = 8 if columns else 16
    if config.compute == "f32":
        # Lanes lie 4x8 with 4x4 results each; in two stages 8x4 where a warp is taller than wide.
        tall = stages == 2 and warp[0] > warp[1]
        least = 16 if tall is columns else 32
    lines = whole
    while 4 * side // whole * lines * pitch > operand_storage(config, stages) and lines // 2 >= least:
        lines //= 2
    return Buffer(side // whole * lines, pitch)


def smem_bytes(config: GemmConfig, stages: int) -> int:
    """Bytes of shared memory of a block: the operands' stages, and later the tile."""
    used = max(operand_storage(config, stages), buffer(config, stages).bytes)
    return -(-used // 16) * 16


def max_stages(config: GemmConfig, capacity: int) -> int:
    """The most stages that fit into `capacity` bytes; operands that pass through registers have two."""
    if warp_tile(config.compute, config.tile) is None or min(config.tile) < 1:
        return 0
    stages = 2 if through_registers(config) else capacity // max(operand_storage(config, 1), 1)
    while stages and smem_bytes(config, stages) > capacity:
        stages -= 1
    return stages


# Choice


def can(problem: Problem) -> bool:
    """Whether the family has a kernel for a problem, with some schedule."""
    plain = problem.rights == 1 and not problem.grouped and not problem.sparse
    return problem.compute in COMPUTES and plain


_TILES = (
    *((m, n) for m, n in ((128, 256), (256, 128), (128, 128), (256, 64), (64, 256))),
    *((m, n) for m, n in ((128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64))),
)


class Multistage(Family):
    """Kernels of CUTLASS 2.x mainloops."""

    mainloops = (MAINLOOP,)
    computes = COMPUTES
    schedulers = ("persistent", "stream_k", "split_k")

    def __init__(self, beside: tuple[str, ...] = ()):
        """`beside` are the formats of faster kernels, which are chosen instead where rows are aligned."""
        self.beside = beside

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Every tile at both depths, with as many stages as hide loads, up to four."""
        others = problem.compute in self.beside and (problem.granules.wide or not can(problem))
        if others and pinned.get("mainloop") != MAINLOOP:
            return
        for (m, n), depth in product(_TILES, depths(problem.compute)):
            schedule = replace(Schedule((m, n, depth), mainloop=MAINLOOP, swizzle=4), **pinned)
            config = problem.config(schedule)
            fitting = max_stages(config, facts.limits.shared_memory)
            if problem.compute == "f32" and (config.a_k_major or config.b_k_major):
                wanted = (2,)
            else:
                wanted = (3, 4)
            for stages in wanted:
                yield replace(schedule, stages=max(min(stages, fitting), least_stages(config)))

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Rounds of tiles, each bound by arithmetic, by reading shared memory, or by loads."""
        config = problem.config(schedule)
        sm = facts.multiprocessor
        m, n, k = (max(x, 1) for x in config.tile)
        warp = warp_tile(config.compute, config.tile) or (32, 32)
        warps = max(1, m // warp[0]) * max(1, n // warp[1])
        stages = schedule.stages or 2
        resident = _resident(facts, config, stages, warps)
        share = 1.0 if config.compute == "f32" else sm.mma_sync_share
        if config.compute == "tf32x3":
            share *= SPLITTING
        math = 2.0 * m * n / (sm.flops_per_cycle(config.compute) * share)
        size = config.element_bytes
        if config.compute == "f32":
            # 4x8 lanes read neighbours 16 bytes at a time, many the same: two cycles for each such read.
            shared = warps * (warp[0] / 4 + warp[1] / 8) / 2
        else:
            shared = (m * max(1, n // warp[1]) + n * max(1, m // warp[0])) * size / SHARED_BANDWIDTH
        load = (m + n) * size / sm.l2_bytes_per_cycle
        single = m * (config.granules.a == 2) + n * (config.granules.b == 2)
        if config.compute == "f32":
            single = 2 * (m + n)  # to registers and on to shared memory
        times = {"math": math, "shared memory": shared, "L2": load, "loads": single / LOADS_PER_CYCLE}
        limit = max(times, key=lambda name: times[name])
        step = (1 - EXPOSED) * times[limit] + EXPOSED * sum(times.values())
        extents = Extents.of(problem)
        tiles = ceil(extents.m / m) * ceil(extents.n / n) * extents.batch * max(config.splits, 1)
        depth = ceil(ceil(extents.k / k) / max(config.splits, 1)) * k
        places = device.multiprocessors * resident
        waves = tiles / places
        rounds = ceil(waves) if extents.exact else max(waves, 1.0)
        if config.scheduler == "stream_k":
            rounds = max(waves, 1.0 / max(1, depth // k))
        # In the last round fewer blocks share a multiprocessor.
        busy = min(resident, ceil(tiles / device.multiprocessors))
        clock = device.clock(sm)
        slack = 1.0 + 0.1 / max(stages - 1, 1) / busy
        parts = {
            "mainloop": rounds * busy * depth * step * slack / clock,
            "fill": rounds * LATENCY / clock,
        }
        if config.scheduler == "stream_k" and waves % 1:
            # Each block writes the sums of two tiles, which others read.
            parts["reduction"] = 4 * 4 * m * n * resident / sm.l2_bytes_per_cycle / clock
        moved = extents.moved(size, config.epilogue)
        estimate = Estimate.of(parts, limit, waves, rounds, places, extents.flops, moved)
        return with_gather(facts, device, problem, estimate)

    def smem_bytes(self, config: GemmConfig, stages: int) -> int:
        return smem_bytes(config, stages)

    def max_stages(self, facts: Facts, config: GemmConfig) -> int:
        return max_stages(config, facts.limits.shared_memory)

    def violations(self, facts: Facts, config: GemmConfig, stages: int | None) -> list[Violation]:
        from mucc.kernels.gemm.scheduling import multistage_rules

        return multistage_rules.violations(facts.limits, config, stages)

    def is_legal(self, facts: Facts, config: GemmConfig, stages: int | None) -> bool:
        from mucc.kernels.gemm.scheduling import multistage_rules

        return next(multistage_rules.broken(facts.limits, config, stages), None) is None


def _resident(facts: Facts, config: GemmConfig, stages: int, warps: int) -> int:
    """Blocks that run on a multiprocessor at the same time."""
    if warp_tile(config.compute, config.tile) is None:
        return 1
    m, n, _ = config.tile
    registers = min(255, m * n // (32 * warps) + 120)
    by_registers = facts.multiprocessor.registers // (registers * 32 * warps)
    by_memory = facts.multiprocessor.shared_memory // (smem_bytes(config, stages) + 1024)
    return max(1, min(by_registers, by_memory))
