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
    faster = NARROWEST[precision]
    found = [(_under(bound, faster), name) for name, bound in report.get("assumptions", {}).items()]
    us, name = min(found, default=(0.0, ""))
    return Bound(us / 1e3, name, report.get("whole", True)) if us > 0 else None


def _under(bound: BoundJson, faster: float) -> float:
    """Microseconds of a bound where products run several times as fast."""
    times = [
        limit["us"] / (faster if unit in ("tensor.tf32", "fp32") else 1.0)
        for unit, limit in bound.get("limits", {}).items()
    ]
    return max(times, default=0.0)
