"""The table and the figures of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.common import layer_line
from bench.runner import Row
from mucc.agent.report.figures import geomean

COLUMNS = ("over_eager", "over_cudnn", "over_compile", "over_autotune")

HEAD = f"{'layer':52} {'ms':>9} {'TFLOP/s':>8} {'copy':>5}" + "".join(f"{c[5:]:>9}" for c in COLUMNS)


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Geometric means and the least of good rows.

    Layers of networks are held against cuDNN's best, those of KernelBench against eager PyTorch and
    torch.compile; of depthwise ones the share of a copy's bandwidth counts too.
    """
    found: dict[str, float] = {
        "conv.layers": len(rows),
        "conv.wrong": sum("mucc_ms" in row and not row["good"] for row in rows),
        "conv.not_measured": sum("mucc_ms" not in row for row in rows),
    }
    good = [row for row in rows if row.get("good")]

    def part(group: str, kind: str = "") -> list[Row]:
        return [row for row in good if row["group"] == group and kind in ("", row["kind"])]

    def add(name: str, chosen: Sequence[Row], column: str) -> None:
        values: list[Any] = [row[column] for row in chosen if column in row]
        if values:
            found[f"conv.{name}_geomean"] = round(geomean(values), 4)
            found[f"conv.{name}_min"] = round(min(values), 4)

    for group in ("nhwc", "grouped", "first"):
        add(f"{group}_over_best_cudnn", part(group), "over_cudnn")
        for dtype in ("bf16", "f32"):
            own = [row for row in part(group) if row["name"].endswith(dtype)]
            add(f"{group}_{dtype}_over_best_cudnn", own, "over_cudnn")
    for dtype in ("bf16", "f32"):
        own = [row for row in part("weights") if row["name"].endswith(dtype)]
        add(f"weights_{dtype}_over_best_cudnn", own, "over_cudnn")
    add("nchw_over_best_cudnn", part("nchw"), "over_cudnn")
    for dtype in ("e4m3", "s8"):
        own = [row for row in part("eight") if row["name"].endswith(dtype)]
        add(f"{dtype}_over_best_bf16_cudnn", own, "over_cudnn")
    for group in ("level1", "level2"):
        add(f"{group}_over_eager", part(group), "over_eager")
        add(f"{group}_over_best_cudnn", part(group), "over_cudnn")
        add(f"{group}_over_compile", part(group), "over_compile")
    add("level1_transposed_over_eager", part("level1", "transposed"), "over_eager")
    add("level1_depthwise_of_copy", part("level1", "depthwise"), "of_copy")
    return found


def line(row: Row) -> str:
    """Format a row of the table; of a layer that has no times, say why."""
    return layer_line(row, 52, COLUMNS, _numbers)


def _numbers(row: Row) -> str:
    return f"{row['mucc_ms']:9.4f} {row['tflops']:8.1f} {row['of_copy']:5.2f}"
