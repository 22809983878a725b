"""What the rows say: figures, a table, a plot."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

Row = Mapping[str, Any]


def ratios(rows: Sequence[Row], other: str, ours: str) -> list[float]:
    """Time of the other over time of ours, for rows that have both."""
    return [r[other] / r[ours] for r in rows if r.get(other) and r.get(ours)]


def _spread(figures: dict[str, float], name: str, values: list[float]) -> None:
    if values:
        figures[f"{name}_geomean"] = geometric_mean(values)
        figures[f"{name}_min"] = min(values)


def figures(rows: Sequence[Row], ceilings: Mapping[str, float], bandwidth: float) -> dict[str, float]:
    """Every figure by its dotted name.

    `ceilings` are operations per second by rate that large products of PyTorch reached, `bandwidth` is bytes
    per second. What any contender reached for any shape is a ceiling too.
    """
    out: dict[str, float] = {"gemm.copy_bandwidth": bandwidth}
    reached: dict[str, float] = dict(ceilings)
    for r in rows:
        fastest = min(r[name] for name in ("tuned_ms", "eager_ms") if r.get(name))
        reached[r["rate"]] = max(reached.get(r["rate"], 0.0), r["flop"] / fastest * 1e3)
    ceilings = reached
    for rate, value in ceilings.items():
        out[f"gemm.{rate}.ceiling_flops"] = value
    cases = list(dict.fromkeys(r["case"] for r in rows))
    for case in cases:
        mine = [r for r in rows if r["case"] == case]
        group = mine[0]["group"]
        if group in ("fused", "odd"):
            continue
        _spread(out, f"gemm.{case}.tuned_over_cublas", ratios(mine, "eager_ms", "tuned_ms"))
        _spread(out, f"gemm.{case}.tuned_over_compile", ratios(mine, "compile_ms", "tuned_ms"))
        _spread(out, f"gemm.{case}.default_over_tuned", ratios(mine, "tuned_ms", "default_ms"))
        out[f"gemm.{case}.shapes"] = float(len(ratios(mine, "eager_ms", "tuned_ms")))
        if group == "plain" and (large := next((r for r in mine if r["shape"] == "8192x8192x8192"), None)):
            rate = large["flop"] / large["tuned_ms"] * 1e3
            out[f"gemm.{case}.of_ceiling_8192"] = rate / ceilings[large["rate"]]
        others = ratios(mine, "semi_structured_ms", "tuned_ms")
        _spread(out, f"gemm.{case}.tuned_over_semi_structured", others)
        if group == "skinny":
            _spread(out, f"gemm.{case}.of_copy", [r["bytes"] / r["tuned_ms"] * 1e3 / bandwidth for r in mine])
    odd = [r for r in rows if r["group"] == "odd"]
    _spread(out, "gemm.odd_bf16.tuned_over_cublas", ratios(odd, "eager_ms", "tuned_ms"))
    fused = [r for r in rows if r["group"] == "fused"]
    for other in ("eager", "compile"):
        _spread(out, f"fused.tuned_over_{other}", ratios(fused, f"{other}_ms", "tuned_ms"))
    _spread(out, "fused.default_over_tuned", ratios(fused, "tuned_ms", "default_ms"))
    by_case = {c: {r["shape"]: r for r in rows if r["case"] == c} for c in ("f32", "tf32x3")}
    pairs = [(by_case["f32"][s], by_case["tf32x3"][s]) for s in by_case["f32"] if s in by_case["tf32x3"]]
    if pairs:
        out["gemm.tf32x3.speed_over_f32_min"] = min(a["tuned_ms"] / b["tuned_ms"] for a, b in pairs)
        out["gemm.tf32x3.error_over_f32_max"] = max(b["error"] / a["error"] for a, b in pairs)
    return out


_COLUMNS: tuple[str, ...] = (
    "case",
    "shape",
    "tuned_ms",
    "tflops",
    "eager/tuned",
    "compile/tuned",
    "default",
    "schedule",
)


def table(rows: Sequence[Row]) -> str:
    """One line a row."""
    lines: list[tuple[str, ...]] = [_COLUMNS]
    for r in rows:
        ratio = {
            other: f"{r[f'{other}_ms'] / r['tuned_ms']:.2f}" if r.get(f"{other}_ms") else "-"
            for other in ("eager", "compile")
        }
        default = f"{r['tuned_ms'] / r['default_ms']:.2f}" if r.get("default_ms") else "-"
        cells = (r["case"], r["shape"], f"{r['tuned_ms']:.4f}", f"{r['flop'] / r['tuned_ms'] * 1e-9:.0f}")
        lines.append((*cells, ratio["eager"], ratio["compile"], default, r.get("tuned_schedule", "")))
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Speed against PyTorch by shape, one panel a case: the tuned and the default schedule."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    rows: list[Row] = result["rows"]
    joined = ("fused", "odd")
    groups = list(dict.fromkeys(r["group"] if r["group"] in joined else r["case"] for r in rows))
    figure, axes = pyplot.subplots(len(groups), 1, figsize=(14, 2.6 * len(groups)), squeeze=False)
    for axis, group in zip(axes[:, 0], groups, strict=True):
        mine = [r for r in rows if group in (r["case"], r["group"]) and r.get("eager_ms")]
        names = [f"{r['case']}\n{r['shape']}" if group in joined else r["shape"] for r in mine]
        at = range(len(mine))
        axis.bar([x - 0.2 for x in at], [r["eager_ms"] / r["tuned_ms"] for r in mine], 0.4, label="tuned")
        default = [r["eager_ms"] / r.get("default_ms", math.nan) for r in mine]
        axis.bar([x + 0.2 for x in at], default, 0.4, label="default")
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_xticks(list(at), names, rotation=60, ha="right", fontsize=6)
        axis.set_ylabel("PyTorch / mucc")
        axis.set_title(
            f"{group}: speed against PyTorch on {result['versions'].get('gpu', result['card'])}", fontsize=9
        )
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
