"""What an sm_90a TMA kernel costs: the time of a tile's mainloop and epilogue, and of what is around them."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf
from typing import Any

from mucc.target import sm90_memory as memory
from mucc.target.base import Device, Facts
from mucc.target.config import Estimate, Problem, Schedule, operand_bytes
from mucc.target.cost import Extents, Walk, divide, epilogue_bytes, larger

NEVER = Estimate(inf, {}, "nothing", 0.0, 0, 0.0, 0.0, 0.0)
"""What a schedule takes that no rule would pass."""


class Sm90Cost:
    """The cost of schedules for one problem on one card. The constants are `cost` of the data file."""

    def __init__(self, facts: Facts, device: Device, problem: Problem):
        self.device = device
        self.problem = problem
        self.sm = facts.multiprocessor
        self.capacity = facts.limits.shared_memory
        self.cost: Mapping[str, Any] = facts.cost
        self.extents = Extents.of(problem)
        self.element = operand_bytes(problem.compute)
        self.flops_per_cycle = self.sm.flops_per_cycle(problem.compute) * self.cost["math_share"]
        self.read, self.written = epilogue_bytes(problem.epilogue)
        self._kernels: dict[object, tuple[int, int]] = {}
        self._estimates: dict[Schedule, Estimate] = {}

    def estimate(self, schedule: Schedule) -> Estimate:
        """Seconds of a schedule, legal or not."""
        if (found := self._estimates.get(schedule)) is None:
            found = self._estimates[schedule] = self._estimate(schedule)
        return found

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
        walk = Walk.of(extents, schedule)
        units, depth, peers = divide(walk.tiles, ceil(extents.k / k), slots, schedule)

        # One step along K of a block, in cycles. A pair of products has twice the columns of its result.
        element = self.element
        columns = n * self.problem.rights
        math = 2 * m * columns * k / self.flops_per_cycle
        reads = (m * k + ceil(m / 64) * columns * k) * element
        shared = (reads + (m + columns) * k * element) / cost["smem_bytes_per_cycle"]
        loaded = (m / cluster_n + columns / cluster_m) * k * element
        waiting = cost["latency"] / max(stages - 1, 1)
        issue = cost["issue"].get(schedule.mainloop, 0.0)

        def step(active: float) -> float:
            l2 = loaded / min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / clock / active)
            return larger(math, shared, l2, waiting) + issue

        epilogue = cost["epilogue_cycles"]
        epilogue += m * n * (self.read + self.written) / cost["epilogue_bytes_per_cycle"]

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
        if schedule.mainloop == "pingpong":
            exposed = (count - 1) * max(0.0, (epilogue - one) / 2) + epilogue
        elif resident > 1:
            one *= resident
            exposed = count * max(0.0, epilogue + cost["fill"] * clock - one * (1 - 1 / resident))
        else:
            exposed = count * epilogue
        mainloop = (count * one - saved) / clock
        pure = count * resident * depth * math / clock

        # What the whole card moves, and what adding up the pieces of divided tiles takes.
        moved = walk.dram_loads(
            m * extents.k * element,
            columns * extents.k * element,
            slots,
            self.device.l2_bytes * cost["l2_share"],
        )
        moved += extents.m * extents.n * extents.batch * (self.read + self.written)
        dram = moved / (cost["dram_share"] * self.device.datasheet["dram_bandwidth"])
        reduction = cost["clear"] if schedule.scheduler != "persistent" else 0.0
        if peers > 1:
            added = cost["fixup_cycles"] + m * n * 4 / cost["fixup_bytes_per_cycle"]
            reduction += (peers - 1) * added / clock
        after = exposed / clock
        body = larger(mainloop + after, dram)
        limits = {
            "math": math,
            "shared memory": shared,
            "L2": loaded / min(cost["l2_bytes_per_cycle"], cost["l2_bandwidth"] / clock / busy),
            "latency": waiting,
        }
        limit = "DRAM" if dram > mainloop + after else max(limits, key=lambda name: limits[name])
        parts = {
            "math": pure,
            "loads": body - pure - after,
            "epilogue": after,
            "reduction": reduction,
            "fill": cost["fill"],
            "launch": cost["launch"],
        }
        flops = extents.flops * self.problem.rights
        return Estimate.of(parts, limit, waves, count, places, flops, moved)

    def kernel(self, schedule: Schedule) -> tuple[int, int]:
        """Pipeline stages, and blocks that share a multiprocessor (one of a persistent kernel)."""
        key = (schedule.tile, schedule.mainloop, schedule.stages)
        if (found := self._kernels.get(key)) is None:
            config = self.problem.config(schedule)
            stages = schedule.stages or memory.max_stages(config, self.capacity)
            resident = 1
            if schedule.mainloop == "warpspecialized":
                used = memory.kernel_storage(config, stages) + 1024
                resident = max(1, min(self.sm.shared_memory // used, self.sm.registers // (384 * 168)))
            found = self._kernels[key] = stages, resident
        return found
