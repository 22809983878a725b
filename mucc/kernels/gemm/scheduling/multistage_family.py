"""The family of multistage kernels: schedules to propose, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

from mucc.kernels.gemm.scheduling import multistage_rules
from mucc.kernels.gemm.scheduling.base import Family
from mucc.kernels.gemm.scheduling.config import Estimate, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.cost import Extents, with_gather
from mucc.kernels.gemm.scheduling.multistage import (
    COMPUTES,
    MAINLOOP,
    can,
    depths,
    least_stages,
    max_stages,
    smem_bytes,
    warp_tile,
)
from mucc.kernels.violation import Violation
from mucc.target.facts import Device, Facts

_TILES = (
    *((m, n) for m, n in ((128, 256), (256, 128), (128, 128), (256, 64), (64, 256))),
    *((m, n) for m, n in ((128, 64), (64, 128), (64, 64), (128, 32), (32, 128), (64, 32), (32, 64))),
)

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
        others = problem.compute in self.beside and (problem.wide or not can(problem))
        if others and pinned.get("mainloop") != MAINLOOP:
            return
        for (m, n), depth in product(_TILES, depths(problem.compute)):
            schedule = Schedule((m, n, depth), mainloop=MAINLOOP, swizzle=4).having(pinned)
            config = problem.config(schedule)
            fitting = max_stages(config, facts.limits.shared_memory)
            if problem.compute == "f32" and (config.problem.a.k_major or config.problem.b.k_major):
                wanted = (2,)
            else:
                wanted = (3, 4)
            for stages in wanted:
                yield replace(schedule, stages=max(min(stages, fitting), least_stages(config)))

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Estimate the rounds of tiles, each bound by arithmetic, by reads of shared memory, or by loads."""
        config = problem.config(schedule)
        sm = facts.multiprocessor
        m, n, k = (max(x, 1) for x in config.schedule.tile)
        warp = warp_tile(config.problem.compute, config.schedule.tile) or (32, 32)
        warps = max(1, m // warp[0]) * max(1, n // warp[1])
        stages = schedule.stages or 2
        resident = _resident(facts, config, stages, warps)
        share = 1.0 if config.problem.compute == "f32" else sm.mma_sync_share
        if config.problem.compute == "tf32x3":
            share *= SPLITTING
        math = 2.0 * m * n / (sm.flops_per_cycle(config.problem.compute) * share)
        size = config.problem.element_bytes
        if config.problem.compute == "f32":
            # 4x8 lanes read neighbours 16 bytes at a time, many the same: two cycles for each such read.
            shared = warps * (warp[0] / 4 + warp[1] / 8) / 2
        else:
            shared = (m * max(1, n // warp[1]) + n * max(1, m // warp[0])) * size / SHARED_BANDWIDTH
        load = (m + n) * size / sm.l2_bytes_per_cycle
        single = m * (config.problem.a.granule == 2) + n * (config.problem.b.granule == 2)
        if config.problem.compute == "f32":
            single = 2 * (m + n)  # to registers and on to shared memory
        times = {"math": math, "shared memory": shared, "L2": load, "loads": single / LOADS_PER_CYCLE}
        limit = max(times, key=lambda name: times[name])
        step = (1 - EXPOSED) * times[limit] + EXPOSED * sum(times.values())
        extents = Extents.of(problem)
        tiles = ceil(extents.m / m) * ceil(extents.n / n) * extents.batch * max(config.schedule.splits, 1)
        depth = ceil(ceil(extents.k / k) / max(config.schedule.splits, 1)) * k
        places = device.multiprocessors * resident
        waves = tiles / places
        rounds = ceil(waves) if extents.exact else max(waves, 1.0)
        if config.schedule.scheduler == "stream_k":
            rounds = max(waves, 1.0 / max(1, depth // k))
        # In the last round fewer blocks share a multiprocessor.
        busy = min(resident, ceil(tiles / device.multiprocessors))
        clock = device.clock(sm)
        slack = 1.0 + 0.1 / max(stages - 1, 1) / busy
        parts = {
            "mainloop": rounds * busy * depth * step * slack / clock,
            "fill": rounds * LATENCY / clock,
        }
        if config.schedule.scheduler == "stream_k" and waves % 1:
            # Each block writes the sums of two tiles, which others read.
            parts["reduction"] = 4 * 4 * m * n * resident / sm.l2_bytes_per_cycle / clock
        moved = extents.moved(size, config.problem.epilogue)
        estimate = Estimate.of(parts, limit, waves, rounds, places, extents.flops, moved)
        return with_gather(facts, device, problem, estimate)

    def smem_bytes(self, config: GemmConfig, stages: int) -> int:
        return smem_bytes(config, stages)

    def max_stages(self, facts: Facts, config: GemmConfig) -> int:
        return max_stages(config, facts.limits.shared_memory)

    def violations(self, facts: Facts, config: GemmConfig, stages: int | None) -> list[Violation]:
        return multistage_rules.violations(facts.limits, config, stages)

    def is_legal(self, facts: Facts, config: GemmConfig, stages: int | None) -> bool:
        return next(multistage_rules.broken(facts.limits, config, stages), None) is None


def _resident(facts: Facts, config: GemmConfig, stages: int, warps: int) -> int:
    """Blocks that run on a multiprocessor at the same time."""
    if warp_tile(config.problem.compute, config.schedule.tile) is None:
        return 1
    m, n, _ = config.schedule.tile
    registers = min(255, m * n // (32 * warps) + 120)
    by_registers = facts.multiprocessor.registers // (registers * 32 * warps)
    by_memory = facts.multiprocessor.blocks_with(smem_bytes(config, stages))
    return max(1, min(by_registers, by_memory))
