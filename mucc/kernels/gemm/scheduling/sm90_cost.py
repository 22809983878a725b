"""The cost of a TMA kernel of sm_90a: mainloop and epilogue of a tile, and the work around them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Any, NamedTuple

from mucc.kernels.gemm.scheduling import sm90_memory as memory
from mucc.kernels.gemm.scheduling.config import Problem, Schedule
from mucc.kernels.gemm.scheduling.cost import (
    Extents,
    Walk,
    divide,
    epilogue_bytes,
    larger,
    prepared_bytes,
    preparing,
)
from mucc.kernels.gemm.scheduling.sm90_rules import SPLIT
from mucc.kernels.workload import Estimate
from mucc.target.facts import Device, Facts

NEVER = Estimate(inf, {}, "nothing", 0.0, 0, 0.0, 0.0, 0.0)
"""What a schedule takes that no rule would pass."""


PARTS = 3
"""How many products of parts stand for one of f32."""

PROMOTION = 128
"""Elements along K of what tensor cores add up, where sums are kept twice (`mucc/promoted.cuh`)."""


WARPGROUP = 128
"""Threads of a warpgroup."""


class _Step(NamedTuple):
    """A block's step along K: cycles of products, shared memory and conversion, and bytes that it loads."""

    math: float
    shared: float
    loaded: float
    convert: float

    def at(self, bandwidth: float, waiting: float = 0.0) -> float:
        """Cycles of the step where L2 gives the block so many bytes in each."""
        return larger(self.math, self.shared, self.loaded / bandwidth, waiting, self.convert)


class Sm90Cost:
    """The cost of schedules for one problem on one card. The constants are `cost` of the data file."""

    def __init__(self, facts: Facts, device: Device, problem: Problem):
        self.device = device
        self.problem = problem
        self.sm = facts.multiprocessor
        self.capacity = facts.limits.shared_memory
        self.cost: Mapping[str, Any] = facts.cost
        exact = Extents.of(problem)
        self.flops = exact.flops * problem.rights
        self.a_bytes, self.b_bytes = problem.a_bytes, problem.b_bytes
        self.convert = 0.0
        if (narrow := problem.narrow) is not None:
            self.convert = self.cost["convert"] + self.cost["scale"] * (bool(narrow.group) + narrow.zeros)
        self.parts = PARTS if problem.compute in SPLIT else 1
        self.extents = exact._replace(k=exact.k * self.parts)
        compute = "tf32" if self.parts > 1 else problem.compute
        self.flops_per_cycle = self.sm.flops_per_cycle(compute) * self.cost["math_share"]
        if problem.is_sparse:
            self.flops_per_cycle *= 2  # of two products one is left out
        self.prepared = prepared_bytes(problem, exact)
        self.preparation = preparing(facts, device, self.prepared)
        self.read, self.written = epilogue_bytes(problem.epilogue)
        self._kernels: dict[object, tuple[int, int]] = {}
        self._estimates: dict[Schedule, Estimate] = {}

    def estimate(self, schedule: Schedule) -> Estimate:
        """Seconds of a schedule, legal or not."""
        if (found := self._estimates.get(schedule)) is None:
            found = self._estimates[schedule] = self._estimate(schedule)
        return found

    def waves(self, tile: tuple[int, int, int], cluster: tuple[int, int]) -> int:
        """Waves that whole tiles take, by clusters and without swizzle."""
        extents, (m, n), (x, y) = self.extents, tile[:2], cluster
        tiles = ceil(extents.m / (m * x)) * ceil(extents.n / (n * y)) * extents.batch
        return ceil(tiles / self.device.clusters.get(str(x * y), self.device.multiprocessors // (x * y)))

    def least(self, tile: tuple[int, int, int], cluster: tuple[int, int], waves: int) -> float:
        """Seconds that no persistent schedule stays below which takes so many waves of such tiles."""
        cost = self.cost
        step = self._step(tile, cluster, (cost["merged"], cost["merged"]))
        one = ceil(self.extents.k / tile[2]) * step.at(cost["l2_bytes_per_cycle"])
        around = self.preparation + cost["fill"] + cost["launch"]
        return (waves * one + self._epilogue(tile)) / cost["clock"] + around

    def _share(self, readers: float) -> float:
        """Return the share of an operand's loads that L2 serves if this many clusters read the same."""
        merged = self.cost["merged"]
        return merged + (1 - merged) * min(1.0, self.cost["few"] / readers)

    def _step(
        self, tile: tuple[int, int, int], cluster: tuple[int, int], shares: tuple[float, float]
    ) -> _Step:
        """Return the cycles and bytes of a step of a tile of which L2 serves these shares of A and of B."""
        (m, n, k), (cluster_m, cluster_n) = tile, cluster
        # A pair of products has twice the columns of its result.
        columns = n * self.problem.rights
        a, b = m * k * self.a_bytes, columns * k * self.b_bytes
        return _Step(
            2 * m * columns * k / self.flops_per_cycle,
            (2 * a + (ceil(m / 64) + 1) * b) / self.cost["smem_bytes_per_cycle"],
            a / cluster_n * shares[0] + b / cluster_m * shares[1],
            m * k * self.convert,
        )

    def _epilogue(self, tile: tuple[int, int, int]) -> float:
        """Cycles of the epilogue of a tile, by pieces of 32 columns, or of 16, which take as long."""
        moved = tile[0] * tile[1] * (self.read + self.written) * (2 if tile[1] % 32 else 1)
        return self.cost["epilogue_cycles"] + moved / self.cost["epilogue_bytes_per_cycle"]

    def _functions(self, tile: tuple[int, int, int], mainloop: str) -> float:
        """Cycles that functions in the epilogue of a tile take.

        A warp takes as long for an instruction whatever other warps do, as its code is unrolled over the
        tile. The warpgroups of a cooperative kernel share a tile, those of a pingpong kernel have one each.
        """
        warpgroups = 2 if mainloop == "cooperative" else 1
        elements = tile[0] * tile[1] / (warpgroups * WARPGROUP)
        return elements * self.problem.epilogue.instructions * self.cost["epilogue_instruction"]

    def _exposed(
        self, mainloop: str, resident: int, count: float, one: float, after: tuple[float, float]
    ) -> float:
        """Cycles of epilogues that no mainloop hides, of `count` tiles one after another.

        `one` is what the mainloops of the tiles take that a multiprocessor has at a time, `after` what the
        epilogue of a tile takes, and the functions in it.
        """
        epilogue, functions = after
        if mainloop == "pingpong":
            # CUTLASS lets one warpgroup after the other compute its epilogue.
            again = max((epilogue - one) / 2, functions + epilogue - one if functions else 0.0, 0.0)
            return (count - 1) * again + epilogue + functions
        if resident > 1:
            around = epilogue + functions + self.cost["fill"] * self.cost["clock"]
            return count * max(0.0, around - one * (1 - 1 / resident))
        return count * (epilogue + functions)

    def _estimate(self, schedule: Schedule) -> Estimate:
        cost, extents = self.cost, self.extents
        clock = cost["clock"]
        if min(*schedule.tile, *schedule.cluster) < 1:
            return NEVER
        m, n, k = schedule.tile
        cluster_m, cluster_n = schedule.cluster
        blocks = cluster_m * cluster_n
        stages, resident = self.kernel(schedule)
        places = self.device.clusters.get(str(blocks), self.device.multiprocessors // blocks) * blocks
        slots = places * resident
        if not slots:
            return NEVER
        walk = Walk.of(extents, schedule)
        units, depth, peers = divide(walk.tiles, ceil(extents.k / k), slots, schedule)

        columns = n * self.problem.rights
        shares = self._share(walk.columns / cluster_n), self._share(walk.rows / cluster_m)
        one_step = self._step(schedule.tile, schedule.cluster, shares)
        math, shared, loaded, convert = one_step
        waiting = cost["latency"] / max(stages - cost["held"], 0.5)
        issue = cost["issue"].get(schedule.mainloop, 0.0)
        if self.parts > 1:
            issue += cost["promotion"] * m * columns / self.sm.fp32_per_cycle * k / PROMOTION

        def step(active: float) -> float:
            bandwidth = min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / clock / active)
            return one_step.at(bandwidth, waiting) + issue

        functions = self._functions(schedule.tile, schedule.mainloop)
        epilogue = self._epilogue(schedule.tile)

        # Tiles one after another on the multiprocessor that has most of them.
        waves = units / slots
        count = max(waves, 1.0)
        busy = min(units / resident, places)
        one = depth * step(busy)
        saved = 0.0
        if extents.exact:
            count = ceil(waves)
            if count > 1 and (last := waves - count + 1):
                saved = one - depth * step(last * places)
        if resident > 1 and schedule.mainloop != "pingpong":
            one *= resident
        exposed = self._exposed(schedule.mainloop, resident, count, one, (epilogue, functions))
        mainloop = (count * one - saved) / clock
        pure = count * resident * depth * math / clock

        moved = self._moved(walk, m, columns, slots)
        dram = moved / (cost["dram_share"] * self.device.datasheet["dram_bandwidth"])
        after = exposed / clock
        body = larger(mainloop + after, dram)
        limits = {
            "math": math,
            "shared memory": shared,
            "L2": loaded / min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / clock / busy),
            "latency": waiting,
            "conversion": convert,
        }
        limit = "DRAM" if dram > mainloop + after else max(limits, key=lambda name: limits[name])
        parts = {
            "preparation": self.preparation,
            "math": pure,
            "loads": body - pure - after,
            "epilogue": after,
            "reduction": self._reduction(schedule, peers),
            "fill": cost["fill"],
            "launch": cost["launch"],
        }
        return Estimate.of(parts, limit, waves, count, places, self.flops, moved + self.prepared.bytes)

    def _moved(self, walk: Walk, rows: int, columns: int, slots: int) -> float:
        """Bytes that the whole card moves, by tiles of so many rows and columns, `slots` at a time."""
        extents = self.extents
        loads = walk.dram_loads(
            rows * extents.k * self.a_bytes,
            columns * extents.k * self.b_bytes,
            slots,
            self.device.l2_bytes * self.cost["l2_share"],
        )
        return loads + extents.m * extents.n * extents.batch * (self.read + self.written)

    def _reduction(self, schedule: Schedule, peers: float) -> float:
        """Seconds that adding up the pieces of tiles takes, each divided into `peers`."""
        cost = self.cost
        seconds = cost["clear"] if schedule.scheduler != "persistent" else 0.0
        if peers > 1:
            m, n, _ = schedule.tile
            added = cost["fixup_cycles"] + m * n * 4 / cost["fixup_bytes_per_cycle"]
            seconds += (peers - 1) * added / cost["clock"]
        return seconds

    def kernel(self, schedule: Schedule) -> tuple[int, int]:
        """Pipeline stages, and blocks that share a multiprocessor (one of a persistent kernel)."""
        key = (schedule.tile, schedule.mainloop, schedule.stages, schedule.epilogue_tile)
        if (found := self._kernels.get(key)) is None:
            config = self.problem.config(schedule)
            stages = schedule.stages or memory.max_stages(config, self.capacity)
            resident = 1
            if schedule.mainloop == "warpspecialized":
                by_memory = self.sm.blocks_with(memory.kernel_storage(config, stages))
                resident = max(1, min(by_memory, self.sm.registers // (384 * 168)))
            found = self._kernels[key] = stages, resident
        return found
