"""Classify a problem by the unit that limits it, once for all of its programs."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.analysis import Limit
from mucc.api.json_types import BoundJson, LimitJson, SolReport

DRAM = "dram"

BALANCED = 2 / 3
"""Where the lesser of compute and memory time is at least this part of the greater, both limit: measured
kernels reach 70 to 90 % of either roof, so that a program may meet the lower roof first (own choice)."""


def bound_of(sol: SolReport, bound_us: float | None) -> BoundJson:
    """Return the bound of a report of `mucc sol --json` that steering uses: of those under its assumptions
    the one nearest to `bound_us`, which the policy of precision decided.
    """
    if bound_us is None:
        return sol
    found: list[BoundJson] = [sol, *sol.get("assumptions", {}).values()]
    return min(found, key=lambda b: abs(float(b.get("bound_us", 0.0)) - bound_us))


def together(reports: Sequence[SolReport]) -> SolReport:
    """Return the reports of kernels that run one after another as one: amounts and times add up."""
    if len(reports) == 1:
        return reports[0]
    limits: dict[str, LimitJson] = {}
    for report in reports:
        for unit, limit in report.get("limits", {}).items():
            sums = limits.setdefault(unit, {"amount": 0.0, "us": 0.0})
            sums["amount"] += limit["amount"]
            sums["us"] += limit["us"]
    bound_us = sum(float(report.get("bound_us", 0.0)) for report in reports)
    binding = max(limits, key=lambda unit: limits[unit]["us"], default="")
    whole = all(report.get("whole", True) for report in reports)
    return {"kernel": "", "bound_us": bound_us, "binding": binding, "whole": whole, "limits": limits}


def classify(sol: SolReport, launch_us: float, bound_us: float | None = None) -> Limit | None:
    """Return the class of a problem by its roofline; None if the report is empty, or of a part of the work.

    Latency: the launches that no program of it does without, `launch_us` together, take as long as the work
    would at the speed of light. Else what has most to do, memory or an arithmetic unit, or both where they
    are close. Times in microseconds.
    """
    if not sol.get("whole", True):
        return None
    bound = bound_of(sol, bound_us)
    times = {unit: limit["us"] for unit, limit in bound.get("limits", {}).items()}
    if not times:
        return None
    memory = times.get(DRAM, 0.0)
    compute = max((us for unit, us in times.items() if unit != DRAM), default=0.0)
    if max(memory, compute) <= launch_us:
        return Limit.LATENCY
    if min(memory, compute) >= BALANCED * max(memory, compute):
        return Limit.MIXED
    return Limit.COMPUTE if compute > memory else Limit.MEMORY
