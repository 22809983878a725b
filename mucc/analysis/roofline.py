"""Draw roofline plots: the roofs of a card, and programs below them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from io import BytesIO
from typing import Any

from mucc.analysis.bound import DRAM, Rates
from mucc.analysis.sol import Sol
from mucc.target.devices import Card


def draw(form: str, found: Sequence[Sol], card: Card, measured_ms: float | None = None) -> bytes:
    """Plot operations per second over operations per byte, on logarithmic axes, as a file of a format.

    Every unit that a program uses is a roof. A program is a point on its roof, and one below where it was
    measured. Raises ImportError without matplotlib, ValueError for a format that it does not write.
    """
    figure_module: Any = importlib.import_module("matplotlib.figure")
    figure = figure_module.Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    rates = Rates(card.device, card.target.facts.multiprocessor)
    points = [(s, limit) for s in found if (limit := _main(s)) is not None]
    intensities = [_intensity(s, limit.amount) for s, limit in points] or [1.0]
    low, high = min(*intensities, 1.0) / 4, max(*intensities, rates.ridge("tensor.bf16")) * 8
    for unit in sorted({limit.unit for _, limit in points} or {"tensor.bf16"}):
        xs = [low, rates.ridge(unit), high]
        axes.plot(xs, [min(rates[unit], x * rates[DRAM]) / 1e12 for x in xs], label=unit)
    for (sol, limit), x in zip(points, intensities, strict=True):
        axes.plot([x], [limit.amount / sol.bound.seconds / 1e12], "o", color="black")
        axes.annotate(
            sol.kernel,
            (x, limit.amount / sol.bound.seconds / 1e12),
            textcoords="offset points",
            xytext=(4, 6),
        )
        if measured_ms is not None:
            axes.plot([x], [limit.amount / measured_ms / 1e9], "x", color="tab:red", label="measured")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="operations per byte of device memory",
        ylabel="10¹² operations per second",
        title=card.device.name,
    )
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    file = BytesIO()
    figure.savefig(file, format=form, dpi=120)
    return file.getvalue()


def _main(sol: Sol) -> Any:
    """Return the slowest unit other than memory; None without one."""
    return next((x for x in sol.bound.limits if x.unit != DRAM and x.amount), None)


def _intensity(sol: Sol, operations: int) -> float:
    moved = sol.bound.limit(DRAM)
    return operations / moved.amount if moved and moved.amount else 1.0
