"""Schedules for sm_100a: what is worth trying, and a rough model of time from the maker's figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import ceil
from typing import Any

from mucc.kernels.gemm.scheduling import multistage
from mucc.kernels.gemm.scheduling import sm100_memory as memory
from mucc.kernels.gemm.scheduling import sm100_rules as rules
from mucc.kernels.gemm.scheduling.config import Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.cost import Extents
from mucc.kernels.gemm.scheduling.tma import TmaFamily
from mucc.kernels.workload import Estimate
from mucc.target.facts import Device, Facts

SHAPES = (
    *((memory.PAIR, 128, n) for n in (256, 192, 128, 64)),
    *(("one_sm", 128, n) for n in (256, 128, 64, 32)),
    *(("one_sm", 64, n) for n in (128, 64)),
)
"""Tiles worth trying, the best first among equals: large ones by pairs of blocks."""

LATENCY = 2000
"""Cycles from a tile's start to its end that no other work hides."""


class Sm100Tma(TmaFamily):
    """CUTLASS's Sm100 kernels that load by TMA."""

    def __init__(self) -> None:
        super().__init__(rules, memory)

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Every shape with both depths, in pairs of blocks where those multiply together."""
        suited = problem.wide and problem.compute in rules.COMPUTES
        if not suited and multistage.can(problem) and pinned.get("mainloop") not in self.mainloops:
            return
        element = operand_bytes(problem.compute)
        for (word, m, n), depth in product(SHAPES, (128 // element, 64 // element)):
            schedule = Schedule((m, n, depth), mainloop=word).having(pinned)
            cluster = (2, 1) if schedule.mainloop == memory.PAIR else (1, 1)
            schedule = replace(schedule, cluster=cluster)
            waves = _tiles(problem, schedule) / facts.devices[0].multiprocessors
            yield replace(schedule, swizzle=2 if waves >= 2 else 1)

    def exchanges(self, problem: Problem) -> tuple[bool, ...]:
        return (False, True)

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """Waves of tiles, each bound by the tensor cores or by loads from L2."""
        config = problem.config(schedule)
        m, n, k = (max(x, 1) for x in config.schedule.tile)
        sm = facts.multiprocessor
        # One block's instruction with 128 rows and few columns, or with 64 rows, leaves tensor cores idle.
        rate = sm.flops_per_cycle(config.problem.compute) if config.problem.compute in rules.COMPUTES else 1
        math = 2 * 128 * max(n, 128) / rate
        cluster_m, cluster_n = (max(x, 1) for x in config.schedule.cluster)
        load = (m / cluster_n + n / cluster_m) * config.problem.element_bytes / sm.l2_bytes_per_cycle
        extents = Extents.of(problem)
        depth = ceil(extents.k / k) * k
        waves = _tiles(problem, schedule) / device.multiprocessors
        rounds = ceil(waves) if extents.exact else max(waves, 1)
        clock = device.clock(sm)
        shallow = (schedule.stages or memory.max_stages(config, facts.limits.shared_memory)) < 3
        parts = {
            "mainloop": rounds * depth * max(math, load) / clock,
            "fill": rounds * LATENCY * (2 if shallow else 1) / clock,
        }
        limit = "math" if math >= load else "L2"
        moved = extents.moved(config.problem.element_bytes, config.problem.epilogue)
        return Estimate.of(parts, limit, waves, rounds, device.multiprocessors, extents.flops, moved)


def _tiles(problem: Problem, schedule: Schedule) -> int:
    extents = Extents.of(problem)
    m, n, _ = (max(x, 1) for x in schedule.tile)
    return ceil(extents.m / m) * ceil(extents.n / n) * extents.batch
