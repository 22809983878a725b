"""One row a problem, and what all rows say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.kernelbench.importing import Values
from bench.kernelbench.measuring import BASELINES
from bench.kernelbench.records import Records
from mucc.agent.report.figures import geomean

STAGES = ("import", "build", "measure")


def row_of(records: Records, group: str, name: str, compute: str | None) -> Values:
    """All that is known of a problem."""
    found = [records.find(f"{group}/{name}", stage) or {} for stage in STAGES]
    errors = [f"{stage}: {v['error']}" for stage, v in zip(STAGES, found, strict=True) if v.get("error")]
    row: Values = {"level": group, "problem": name, "compute": compute or "as PyTorch"}
    for values in found:
        row |= values
    row |= {"imported": bool(found[0].get("imported")), "errors": errors}
    row.pop("error", None)
    if row.get("compiled", "none") == "none":
        row["compiled"] = "none"
    row["counts"] = counts(row)
    row |= {f"{name}_speedup": speedup(row, name) for name in BASELINES if f"{name}_ms" in row}
    bound = row.get("sol_ms" if compute in (None, "f32") else "sol_tf32_ms")
    if row.get("ms") and bound and not row.get("missing"):
        row["gap"] = row["ms"] / bound
    return row


def counts(row: Mapping[str, Any]) -> bool:
    """Whether the time of a candidate counts: it is correct, and accepted where there was an audit."""
    if not row.get("ms"):
        return False
    if "accepted" in row:
        return bool(row["accepted"] and row.get("correct", False))
    return bool(row.get("agrees_on_gpu"))


def speedup(row: Mapping[str, Any], baseline: str) -> float:
    """How many times as fast as a baseline a problem runs, 1 where it falls back to it.

    A problem falls back where nothing of it is compiled, or where the candidate's time does not count.
    """
    theirs = row.get(f"{baseline}_ms")
    return theirs / row["ms"] if theirs and counts(row) else 1.0


def figures(rows: Iterable[Values]) -> dict[str, float]:
    """The figures of every group: how many problems got how far, and speedups over all of them.

    No problem is left out of a geometric mean; `fallbacks` says how many are in it as 1.
    """
    by_group: dict[str, list[Values]] = {}
    for row in rows:
        by_group.setdefault(row["level"], []).append(row)
    found: dict[str, float] = {}
    for group, own in by_group.items():
        found |= _imports(group, own)
        if any("default_ms" in row for row in own):
            found |= _times(group, own)
    everything = [row for own in by_group.values() for row in own]
    if len(by_group) > 1 and any("default_ms" in row for row in everything):
        found |= _times("all", everything)
    return found


def _imports(group: str, own: Sequence[Values]) -> dict[str, float]:
    done = [row for row in own if row["imported"]]
    seconds = [row["seconds"] for row in done]
    figures: dict[str, float] = {
        "problems": len(own),
        "imported": len(done),
        "agree": sum(bool(row.get("agrees")) for row in own),
        "said_whole": sum(row.get("unsaid") == {} for row in own),
        "compiled_whole": sum(row["compiled"] == "whole" for row in own),
        "compiled_parts": sum(row["compiled"] == "parts" for row in own),
        "median_s": round(median(seconds), 3) if seconds else 0.0,
        "largest_s": max(seconds, default=0.0),
        "largest_cpu_s": max((row["cpu_seconds"] for row in done), default=0.0),
    }
    return {f"import.{group}.{name}": value for name, value in figures.items()}


def _times(group: str, own: Sequence[Values]) -> dict[str, float]:
    gaps = [row["gap"] for row in own if row["counts"] and "gap" in row]
    figures: dict[str, float] = {
        f"{group}_over_{baseline}_geomean": geomean([speedup(row, baseline) for row in own])
        for baseline in BASELINES
    }
    figures |= {
        f"{group}.measured": sum("ms" in row for row in own),
        f"{group}.accepted": sum(row["counts"] for row in own),
        f"{group}.fallbacks": sum(not row["counts"] for row in own),
        f"{group}.faster_than_default": sum(speedup(row, "default") > 1 for row in own),
    }
    if gaps:
        figures[f"{group}.gap_geomean"] = geomean(gaps)
    return {f"kernelbench.{name}": round(value, 4) for name, value in figures.items()}
