"""Schedules of sm_90a's `cpasync` mainloop: what is worth trying, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mucc.target import copied_rules as rules
from mucc.target.base import Device, Facts
from mucc.target.config import WIDEST_ACCESS, Estimate, Problem, Schedule, operand_bytes
from mucc.target.sm90_schedule import TMA
from mucc.target.tma import TmaFamily

COPY_CYCLES = 14
"""Cycles of a warp for a copy by its 32 lanes: six instructions, one of them an exchange of addresses."""

WARPS = 2
"""Warps that copy A."""


class Copied(TmaFamily):
    """CUTLASS's Sm90 kernels with A by cp.async."""

    def __init__(self) -> None:
        super().__init__(rules, rules)

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Tiles that suit the same problem with A by TMA, where a schedule asks for the mainloop."""
        if pinned.get("mainloop") != rules.MAINLOOP:
            return
        sizes = {name: pinned[name] for name in ("tile", "cluster") if name in pinned}
        found: dict[Schedule, None] = {}
        for schedule in TMA.proposals(facts, _by_tma(problem), sizes):
            shared = "cluster" not in pinned and schedule.cluster[1] > 1  # A would be copied by each block
            kernel = rules.kernel(schedule.tile)
            if not shared and schedule.mainloop == kernel:
                found[replace(schedule, mainloop=rules.MAINLOOP)] = None
        yield from found or (Schedule((128, 128, 64), mainloop=rules.MAINLOOP),)

    def estimate(self, facts: Facts, device: Device, problem: Problem, schedule: Schedule) -> Estimate:
        """That of the kernel with A by TMA, and what the copies take beyond its arithmetic."""
        m, n, k = (max(size, 1) for size in schedule.tile)
        kernel = replace(schedule, mainloop=rules.kernel(schedule.tile))
        estimate = TMA.estimate(facts, device, _by_tma(problem), kernel)
        size = operand_bytes(problem.compute)
        bytes = rules.granule(problem.granules) or WIDEST_ACCESS
        copying = m * k * size / bytes / 32 / WARPS * COPY_CYCLES
        math = 2 * m * n * k / facts.multiprocessor.flops_per_cycle(problem.compute)
        beyond = max(0.0, copying / math - 1) * estimate.parts.get("math", 0.0)
        parts = {**estimate.parts, "loads": estimate.parts.get("loads", 0.0) + beyond}
        return estimate._replace(seconds=estimate.seconds + beyond, parts=parts)


def _by_tma(problem: Problem) -> Problem:
    """The problem as if A could be loaded by TMA where it lies."""
    if not rules.granule(problem.granules):
        return problem
    return problem._replace(gathered="", granules=problem.granules._replace(a=WIDEST_ACCESS))


COPIED = Copied()
