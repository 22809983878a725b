"""The speed of light that a time is judged by."""

from __future__ import annotations

from mucc.agent.audit.observations import Bound
from mucc.api.json_types import BoundJson, SolReport

NARROWEST = {"declared": 1.0, "tf32": 1.0, "f16": 2.0, "bf16": 2.0}
"""How many times as fast as tf32 the tensor cores multiply in what a policy permits."""


def lowest(report: SolReport, precision: str) -> Bound | None:
    """Return the lowest bound under any arithmetic that the policy permits, from a report of `mucc sol
    --json`.

    Products of f32 may be made of several in tf32, so that what is faster than tf32 is impossible in f32
    as well. Narrower formats lower what arithmetic needs, never what memory does.
    """
    faster, cached = NARROWEST[precision], report.get("cached", 0)
    found = [
        (_under(bound, faster), _under(bound, faster, cached), name)
        for name, bound in report.get("assumptions", {}).items()
    ]
    us, least, name = min(found, default=(0.0, 0.0, ""))
    return Bound(us / 1e3, name, report.get("whole", True), least / 1e3) if us > 0 else None


def _under(bound: BoundJson, faster: float, cached: int = 0) -> float:
    """Microseconds of a bound where products run several times as fast, and so much stays in the cache."""
    times: list[float] = []
    for unit, limit in bound.get("limits", {}).items():
        share = 1.0 / faster if unit in ("tensor.tf32", "fp32") else 1.0
        if cached and unit == "dram" and limit["amount"]:
            share = max(0.0, 1.0 - cached / limit["amount"])
        times.append(limit["us"] * share)
    return max(times, default=0.0)
