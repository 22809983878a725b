"""The speed of light of a problem, asked from `mucc sol`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from mucc.agent.audit.observations import Bound

SECONDS = 180.0

NARROWEST = {"declared": 1.0, "tf32": 1.0, "f16": 2.0, "bf16": 2.0}
"""How many times as fast as tf32 the tensor cores multiply in what a policy permits."""


class SolProcess:
    """`mucc sol` at work beside the audit."""

    def __init__(self, problem: str, card: str):
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mucc", "sol", problem, "--device", card, "--json", "--diagnostics=json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def bound(self, precision: str) -> tuple[Bound | None, str]:
        """The bound, or why there is none."""
        try:
            out, err = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.close()
            return None, f"mucc sol took more than {SECONDS:g} s"
        try:
            report = json.loads(out)
        except ValueError:
            return None, _reason(err)
        return lowest(report, precision), ""

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def lowest(report: Any, precision: str) -> Bound | None:
    """The lowest bound under any arithmetic that the policy permits, from a report of `mucc sol --json`.

    Products of f32 may be made of several in tf32, so that what is faster than tf32 is impossible in f32
    as well. Narrower formats lower what arithmetic needs, never what memory does.
    """
    faster = NARROWEST[precision]
    found = [(_under(bound, faster), name) for name, bound in report["assumptions"].items()]
    us, name = min(found, default=(0.0, ""))
    return Bound(us / 1e3, name) if us > 0 else None


def _under(bound: Any, faster: float) -> float:
    """Microseconds of a bound where products run several times as fast."""
    times = [
        limit["us"] / (faster if unit in ("tensor.tf32", "fp32") else 1.0)
        for unit, limit in bound["limits"].items()
    ]
    return max(times, default=0.0)


def _reason(err: str) -> str:
    try:
        found = json.loads(err)
        return str(found[0]["message"])
    except (ValueError, LookupError, TypeError):
        lines = err.strip().splitlines()
        return lines[-1] if lines else "mucc sol gave no report"
