"""The table and the figures of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.models.measuring import MODES, best_of_inductor, judged
from mucc.agent.report.figures import geomean

Row = Mapping[str, Any]

HEAD = (
    f"{'model':26} {'mode':16} {'GPU ms: eager':>13} {'Inductor':>9} {'mucc':>9} {'gain':>6} {'wall gain':>9}"
    "  first call s"
)


def figures(rows: Sequence[Row], suite: str = "models") -> dict[str, float]:
    """Summarise how many times as fast as Inductor mucc is: geometric mean and least, by mode and over all.

    Names of figures begin with `suite`.
    """
    if suite == "first_calls":
        return _first_calls(rows)
    found: dict[str, float] = {f"{suite}.measured": sum(bool(r.get("over_inductor_gpu")) for r in rows)}
    found[f"{suite}.wrong"] = sum(is_wrong(r) for r in rows)
    for kind, name in (("gpu", "over_inductor"), ("wall", "wall_over_inductor")):
        column = f"over_inductor_{kind}"
        ratios = {m: [r[column][m] for r in rows if m in r.get(column, {})] for m in MODES}
        for mode, values in ratios.items():
            if values:
                key = f"{suite}.{name}.{mode.replace('-', '_')}"
                found[f"{key}_geomean"] = round(geomean(values), 4)
                found[f"{key}_min"] = round(min(values), 4)
    best = [v for r in rows for v in r.get("over_inductor_gpu", {}).values()]
    if best:
        found[f"{suite}.over_best_inductor_geomean"] = round(geomean(best), 4)
        found[f"{suite}.over_best_inductor_min"] = round(min(best), 4)
    for column, name in (("first", "first_call_cold"), ("warm", "first_call_warm")):
        values = [1 / v for r in rows for v in r.get(f"over_inductor_{column}", {}).values()]
        if values:
            found[f"{suite}.{name}_over_inductor"] = round(geomean(values), 4)
    return found


def _first_calls(rows: Sequence[Row]) -> dict[str, float]:
    """Summarise first calls: mucc's time over Inductor's, geometric means by what they find."""
    found: dict[str, float] = {}
    for how in dict.fromkeys(r["how"] for r in rows if "how" in r):
        for column, name in (("first", "first_call_cold"), ("warm", "first_call_warm")):
            ratios = [r.get(f"over_inductor_{column}", {}) for r in rows if r.get("how") == how]
            values = [1 / v for ratio in ratios for v in ratio.values()]
            if values:
                found[f"models.{name}_over_inductor_{how}"] = round(geomean(values), 4)
    return found


def merged(before: Row, row: Row) -> dict[str, Any]:
    """Join two rows of a model; the later one counts where both have a mode, or the earlier has no times."""
    if "gpu_ms" not in before or "gpu_ms" not in row:
        return dict(before if "gpu_ms" in before else row)
    found = {**before, **row}
    for key, value in row.items():
        if isinstance(value, dict) and isinstance(before.get(key), dict):
            found[key] = {**before[key], **value}
    return {k: v for k, v in found.items() if not k.startswith("over_inductor")} | judged(found)


def is_wrong(row: Row) -> bool:
    """Whether a result of mucc is further from float64 than it may be; not where nothing of it ran."""
    return "gpu_ms" in row and not row["good"] and any(n.startswith("mucc/") for n in row["error"])


def lines(row: Row) -> str:
    """Return the rows of the table of a model; of one without times, why."""
    if "gpu_ms" not in row:
        return f"{row['name']:26} {row.get('error', 'not measured')}"
    gpu, wall, first = (row[k] for k in ("gpu_ms", "wall_ms", "first_s"))
    text: list[str] = []
    for mode in MODES:
        a, b = f"inductor/{mode}", f"mucc/{mode}"
        if not {a, b} & {*gpu, *first}:
            continue
        ratio, slower = (best_of_inductor(t, mode) / t.get(b, math.nan) for t in (gpu, wall))
        warm = row.get("warm_s", {})
        text.append(
            f"{row['name']:26} {mode:16} {gpu.get('eager', math.nan):13.4f} "
            f"{best_of_inductor(gpu, mode):9.4f} {gpu.get(b, math.nan):9.4f} {ratio:6.3f} {slower:9.3f}  "
            + (f"{first[a]:.1f} {first[b]:.1f}" if {a, b} <= {*first} else "")
            + (f" warm {warm.get(a, math.nan):.1f} {warm.get(b, math.nan):.1f}" if warm else "")
        )
    if is_wrong(row):
        errors = ", ".join(f"{name} {e:.2e}" for name, e in row["error"].items())
        text.append(f"{row['name']:26} WRONG: {errors}")
    text += [f"{row['name']:26} {name}: {why[:160]}" for name, why in row["failed"].items()]
    return "\n".join(text)
