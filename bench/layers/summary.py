"""The table and the figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.common import layer_line
from mucc.agent.report.figures import geomean

LARGE = 64 << 20
"""Bytes above which a layer is compared with a copy: less than that stays in L2 between two kernels."""

FIGURES = {
    "level1": "level1_memory",
    "level2": "level2_gemm",
    "blocks": "blocks",
    "rows": "rows",
    "pools": "pools",
    "moves": "moves",
}
"""How the figures of each group begin."""

COLUMNS = ("over_eager", "over_tf32", "over_compile", "over_autotune", "over_quack", "over_liger")

Row = Mapping[str, Any]


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Geometric means and the least of each group: of a copy's bandwidth, and over each contender.

    Layers whose results are wrong are only counted.
    """
    found: dict[str, float] = {}
    for group, name in FIGURES.items():
        own = [row for row in rows if row["group"] == group and "mucc_ms" in row]
        if not own:
            continue
        good = [row for row in own if row["good"]]
        found[f"layers.{name}_layers"] = len(own)
        found[f"layers.{name}_wrong"] = len(own) - len(good)
        columns = {column: [row[column] for row in good if column in row] for column in COLUMNS}
        if group != "level2":
            columns["of_copy"] = [
                row["of_copy"] for row in good if row["bytes"] > LARGE and not row["has_product"]
            ]
        for column, values in columns.items():
            if values:
                found[f"layers.{name}_{column}_geomean"] = round(geomean(values), 4)
                found[f"layers.{name}_{column}_least"] = round(min(values), 4)
    return found


HEAD = f"{'layer':48} {'MB':>7} {'ms':>9} {'copy':>5}" + "".join(f"{c[5:]:>9}" for c in COLUMNS)


def line(row: Row) -> str:
    """Format a row of the table; of a layer that has no times, say why."""
    return layer_line(row, 48, COLUMNS, _numbers)


def _numbers(row: Row) -> str:
    return f"{row['bytes'] / 1e6:7.0f} {row['mucc_ms']:9.4f} {row['of_copy']:5.2f}"
