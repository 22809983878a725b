"""Schedules of sm_90a's `cpasync` mainloop: what is worth trying, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mucc.kernels.gemm.scheduling import copied_rules as rules
from mucc.kernels.gemm.scheduling.config import Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.sm90_schedule import TMA
from mucc.kernels.gemm.scheduling.tma import TmaFamily
from mucc.kernels.workload import Estimate
from mucc.target.facts import WIDEST_ACCESS, Device, Facts


class Copied(TmaFamily):
    """CUTLASS's Sm90 kernels with A by cp.async."""

    def __init__(self) -> None:
        super().__init__(rules, rules)

    def proposals(self, facts: Facts, problem: Problem, pinned: Mapping[str, Any]) -> Iterator[Schedule]:
        """Tiles that suit the same problem with A by TMA, where A's rows would be picked by a copy."""
        if pinned.get("mainloop") != rules.MAINLOOP and not _saves(problem):
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
        """Estimate the kernel with A by TMA, and add the time that copies take from its arithmetic.

        Where it waits for DRAM they take nothing.
        """
        m, n, k = (max(size, 1) for size in schedule.tile)
        kernel = replace(schedule, mainloop=rules.kernel(schedule.tile))
        estimate = TMA.estimate(facts, device, _by_tma(problem), kernel)
        if estimate.limit == "DRAM" or "math" not in estimate.parts:
            return estimate
        bytes = rules.granule(problem) or WIDEST_ACCESS
        copies = m * k * operand_bytes(problem.compute) / (32 * bytes)
        each = facts.cost["copied" if bytes == WIDEST_ACCESS else "copied_narrow"]
        math = 2 * m * n * k / facts.multiprocessor.flops_per_cycle(problem.compute)
        beyond = copies * each / math * estimate.parts["math"]
        parts = {**estimate.parts, "loads": estimate.parts["loads"] + beyond}
        return estimate._replace(seconds=estimate.seconds + beyond, parts=parts)


def _saves(problem: Problem) -> bool:
    """Whether a kernel that picks rows of A saves a copy of them."""
    plain = problem.rights == 1 and not problem.narrow and not problem.blocks and not problem.listed
    return problem.a.is_gathered and plain and problem.compute in rules.COMPUTES


def _by_tma(problem: Problem) -> Problem:
    """Return the problem as if TMA could load A where it lies."""
    if not rules.granule(problem):
        return problem
    return problem._replace(a=problem.a.copied._replace(granule=WIDEST_ACCESS), b=problem.b.copied)


COPIED = Copied()
