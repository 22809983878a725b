"""The report of `mucc sol --json` as short lines for a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

STAGES = 12
"""Of a program that are listed at the most."""


def report(sol: Mapping[str, Any]) -> str:
    """The text; empty for an empty report. What a report lacks is left out."""
    return "\n".join(_lines(sol)) if sol.get("bound_us") else ""


def _lines(sol: Mapping[str, Any]) -> Iterator[str]:
    least = "" if sol.get("whole", True) else "at least "
    yield f"bound {least}{_us(sol['bound_us'])}, by {sol.get('binding')}"
    if missing := sol.get("missing"):
        yield f"not counted: {', '.join(missing)}"
    limits: dict[str, Any] = sol.get("limits") or {}
    for unit, limit in limits.items():
        yield f"  {unit}: {limit['amount']:.4g} at {limit['rate']:.4g}/s: {_us(limit['us'])}"
    assumptions: dict[str, Any] = sol.get("assumptions") or {}
    for name, assumed in list(assumptions.items())[1:]:
        yield f"{name}: {_us(assumed['bound_us'])}, by {assumed.get('binding')}"
    stages: list[Any] = sol.get("stages") or []
    if stages and sol.get("staged_bytes"):
        yield f"as {len(stages)} stages {sol['staged_bytes'] / 1e6:.4g} MB, {_us(sol['staged_us'])}:"
    for stage in stages[:STAGES]:
        size = f"{stage['bytes'] / 1e6:.4g} MB, " if stage.get("bytes") else ""
        bound = f"{_us(stage['bound_us'])}, by {stage.get('binding')}"
        yield f"  {stage['name']} ({stage.get('kind')}): {size}{bound}"
    hints: list[Any] = sol.get("hints") or []
    for hint in hints:
        yield f"would lower the bound: {hint['text']}: {_us(hint['bound_us'])}"


def _us(value: float) -> str:
    return f"{value:.4g} us"
