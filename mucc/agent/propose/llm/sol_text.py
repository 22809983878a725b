"""The report of `mucc sol --json` as short lines for a model."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.api.json_types import SolReport

STAGES = 12
"""Of a program that are listed at the most."""


def report(sol: SolReport) -> str:
    """Return the text; empty for an empty report. What a report lacks is left out."""
    return "\n".join(_lines(sol)) if sol.get("bound_us") else ""


def _lines(sol: SolReport) -> Iterator[str]:
    least = "" if sol.get("whole", True) else "at least "
    yield f"bound {least}{_us(sol.get('bound_us', 0.0))}, by {sol.get('binding')}"
    if missing := sol.get("missing"):
        yield f"not counted: {', '.join(missing)}"
    for unit, limit in sol.get("limits", {}).items():
        yield f"  {unit}: {limit['amount']:.4g} at {limit.get('rate', 0):.4g}/s: {_us(limit['us'])}"
    for name, assumed in list(sol.get("assumptions", {}).items())[1:]:
        yield f"{name}: {_us(assumed.get('bound_us', 0.0))}, by {assumed.get('binding')}"
    stages = sol.get("stages", [])
    if stages and (staged := sol.get("staged_bytes")):
        yield f"as {len(stages)} stages {staged / 1e6:.4g} MB, {_us(sol.get('staged_us', 0.0))}:"
    for stage in stages[:STAGES]:
        size = f"{size / 1e6:.4g} MB, " if (size := stage.get("bytes")) else ""
        bound = f"{_us(stage.get('bound_us', 0.0))}, by {stage.get('binding')}"
        yield f"  {stage.get('name')} ({stage.get('kind')}): {size}{bound}"
    for hint in sol.get("hints", []):
        yield f"would lower the bound: {hint['text']}: {_us(hint['bound_us'])}"


def _us(value: float) -> str:
    return f"{value:.4g} us"
