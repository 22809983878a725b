"""A small task, and views of it, for tests of proposers that ask models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate, Outcome, Status
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import View
from mucc.agent.core.tasks import Compiled, Imported, Task

PROGRAM = """\
kernel linear[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[M, N] where K % 8 == 0 {
    return x @ w.T
}
"""

SOL = {
    "bound_us": 80.0,
    "binding": "tensor.tf32",
    "limits": {"tensor.tf32": {"amount": 38_000_000_000, "rate": 494.5e12, "us": 80.0}},
    "assumptions": {"as declared": {"bound_us": 80.0}, "f32 products in f32": {"bound_us": 579.0}},
    "stages": [
        {"name": "out", "kind": "contraction", "bytes": 1e6, "bound_us": 80.0, "binding": "tensor.tf32"}
    ],
    "staged_bytes": 1e6,
    "staged_us": 80.0,
    "hints": [{"text": "multiply f32 operands in bf16", "bound_us": 40.0}],
}


def scheduled(tile: str = "128x128x32") -> str:
    """The program with a schedule."""
    return f"{PROGRAM}\nschedule linear for sm_90a {{\n    tile = {tile}\n}}\n"


def task(program: str = PROGRAM) -> Task:
    """Of one product."""
    imported = Imported("linear", program, "# a driver", Compiled.WHOLE, 1.0)
    return Task("gemm/linear", "linear.py", "", "tf32", "NVIDIA H200", "sm_90a", imported, SOL, 0.08)


def good(number: int, ms: float, program: str = PROGRAM, change: str = "", parent: int | None = 0) -> Attempt:
    """An attempt that counts."""
    return Attempt(
        number,
        Candidate(program, change, parent if number else None),
        Outcome(Status.GOOD, ms=ms, audited=True),
    )


def bad(number: int, status: Status, program: str, change: str = "", **more: Any) -> Attempt:
    """An attempt that does not."""
    return Attempt(number, Candidate(program, change, 0), Outcome(status, **more))


def view(attempts: Sequence[Attempt] = (), **more: Any) -> View:
    """Of the task."""
    return View(task(), attempts or [good(0, 1.0)], **more)


TILES = Hypothesis("larger tiles", "operands are read less often", "tile", 1.3)
