"""The rows as a table for people, and as a plot."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.kernelbench.importing import Values
from bench.kernelbench.measuring import BASELINES

HEAD = ("problem", "import", "compiled", "right", "label", "ms", *BASELINES, "bound", "gap", "problems")


def table(rows: Sequence[Values]) -> str:
    """One line a problem. Times in ms; a baseline's column has its time over ours, in brackets where it is
    no speedup because the candidate's time does not count."""
    lines = [HEAD, *map(_line, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in lines
    )


def _line(row: Values) -> tuple[str, ...]:
    compiled = f"{row['share']:.0%}" if row["compiled"] == "parts" else row["compiled"]
    bound = row.get("sol_ms")
    return (
        f"{row['level']}/{row['problem']}"[:48],
        "yes" if row["imported"] else "no",
        compiled,
        _right(row),
        row.get("label") or "-",
        _number(row.get("ms"), ".4f"),
        *(_ratio(row, name) for name in BASELINES),
        _number(bound, ".4f"),
        _number(row.get("gap"), ".2f"),
        "; ".join((*row["errors"], *(f"{k}: {v}" for k, v in row.get("failed", {}).items())))[:80],
    )


def _right(row: Values) -> str:
    """Whether the kernels compute what PyTorch does; else whether the interpreter does."""
    for key, words in (("correct", ("yes", "NO")), ("agrees_on_gpu", ("yes", "NO"))):
        if key in row:
            return words[0] if row[key] else words[1]
    agrees = row.get("agrees")
    return "-" if agrees is None else "on CPU" if agrees else "NOT on CPU"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _ratio(row: Values, baseline: str) -> str:
    theirs, ours = row.get(f"{baseline}_ms"), row.get("ms")
    if not theirs or not ours:
        return "-"
    return f"{theirs / ours:.2f}" if row["counts"] else f"({theirs / ours:.2f})"


def figures_text(figures: Mapping[str, float]) -> str:
    """The figures, one a line."""
    width = max(map(len, figures), default=0)
    return "".join(f"{name:<{width}}  {value:g}\n" for name, value in figures.items())


def plot(rows: Sequence[Values], path: Path, title: str) -> bool:
    """Speed against the three baselines by problem; whether there was anything to draw.

    Raises ImportError without matplotlib.
    """
    measured = [row for row in rows if "default_ms" in row]
    if not measured:
        return False
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(4 + 0.22 * len(measured), 4.5))
    for n, baseline in enumerate(BASELINES):
        heights = [row.get(f"{baseline}_speedup") or 1.0 for row in measured]
        axes.bar([x + 0.27 * (n - 1) for x in range(len(measured))], heights, 0.27, label=baseline)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log", base=2)
    axes.set_xticks(range(len(measured)), [row["problem"] for row in measured], rotation=70, ha="right")
    axes.tick_params(axis="x", labelsize=6)
    axes.set_ylabel("baseline / mucc")
    axes.set_title(title, fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
