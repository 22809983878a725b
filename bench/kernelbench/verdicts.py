"""What the audit says of a candidate; the one place that knows how it is called."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.kernelbench.options import Options
from mucc.diagnostics.core import DiagnosticError


def judge(
    problem: Path, solution: Path, options: Options, bound_ms: float | None, *, tf32: bool
) -> dict[str, Any]:
    """The label of a candidate, whether it counts and is correct, and the findings.

    `bound_ms` is the bound that a time is compared with; `tf32` says that products of f32 may be in tf32. A
    candidate that cannot be judged has no label, and the reason as `unjudged`.
    """
    try:
        auditing: Any = importlib.import_module("mucc.agent.audit")
    except ModuleNotFoundError:
        return {"label": None, "unjudged": "this mucc has no audit"}
    asked = auditing.Options(
        device=options.device,
        precision="tf32" if tf32 else "declared",
        time_limit=options.time_limit,
        memory_limit=options.memory_limit,
        runs=options.runs,
        bound=bound_ms is not None,
        known=None if bound_ms is None else auditing.Bound(bound_ms),
    )
    try:
        verdict: dict[str, Any] = auditing.audit(str(problem), str(solution), asked).to_json()
    except DiagnosticError as error:
        return {"label": None, "accepted": False, "unjudged": str(error)[:300]}
    found = {
        key: verdict[key] for key in ("label", "accepted", "correct", "findings", "failure", "own_share")
    }
    return found | {"audited_ms": verdict["time_ms"]}
