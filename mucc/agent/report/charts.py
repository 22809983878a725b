"""The charts of a report: how times fell, how far programs are below the roofs of the card."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mucc.agent.core.tasks import BASELINES
from mucc.agent.report.chart import XY, Axis, Chart, short
from mucc.agent.report.figures import Row, geomean
from mucc.agent.report.markup import Markup
from mucc.agent.report.reading import TaskRun
from mucc.agent.report.trajectory import Point
from mucc.api.json_types import BoundJson, SolReport

MEASURES: dict[str, Callable[[Point], float]] = {
    "attempts": lambda p: p.attempts,
    "seconds": lambda p: p.seconds,
    "tokens": lambda p: p.tokens,
}
"""What a trajectory may be drawn against."""

WHOLE = frozenset(("attempts", "tokens"))

MOST_TASKS = 60
"""Whose lines are drawn one by one."""


def trajectory(row: Row, points: Sequence[Point], measure: str) -> Markup | None:
    """Return the best time of a task against what was spent, with every attempt that was timed."""
    timed = [p for p in points if p.ms]
    if not timed:
        return None
    of = MEASURES[measure]
    levels = {n: ms for n in BASELINES if (ms := row.baselines.get(n))}
    fastest = min(levels.values(), default=timed[0].ms or 1.0)
    # What is far slower than all that matters would leave no room for it; the legend has all baselines.
    most = 3 * max(fastest, row.ms or fastest)
    times = [p.ms for p in timed if p.ms and p.ms <= most]
    times += [v for v in (*levels.values(), row.bound_ms or 0.0) if 0 < v <= most]
    chart = Chart(
        f"Best time against {measure}",
        Axis.over(measure, map(of, points), whole=measure in WHOLE),
        Axis.over("ms", times, log=True),
    )
    for n, (name, ms) in enumerate(levels.items()):
        chart.level(ms, f"c{n + 1}", f"{name}: {ms:.4g} ms")
        chart.legend.append((f"c{n + 1}", f"{name} {ms:.4g} ms"))
    if row.bound_ms:
        chart.level(row.bound_ms, "c7", f"bound: {row.bound_ms:.4g} ms")
        chart.legend.append(("c7", f"bound {row.bound_ms:.4g} ms"))
    for p in timed:
        if p.ms and p.ms <= most:
            counts = "counts" if p.counts else p.status if p.status != "good" else "good, not audited"
            chart.dot(of(p), p.ms, "c0" if p.counts else "c6", f"#{p.number}: {p.ms:.4g} ms, {counts}")
    chart.steps([(of(p), p.best_ms) for p in points if p.best_ms], "c0 thick", "the best that counts")
    chart.legend += [("c0", "counts"), ("c6", "does not count")]
    return chart.svg()


def speedups(
    rows: Sequence[Row], trajectories: Sequence[Sequence[Point]], measure: str, baseline: str
) -> Markup | None:
    """Return the geometric mean of speedups over a baseline against what each task had spent, and each
    task's.
    """
    of = MEASURES[measure]
    found = [(row, points) for row, points in zip(rows, trajectories, strict=True) if row.judged]
    ends = [of(points[-1]) for _, points in found if points]
    if not ends or not any(ends):
        return None
    lines = [(row, _speedups(row, points, of, baseline)) for row, points in found]
    xs = sorted({x for _, line in lines for x, _ in line} | {0.0})
    xs = xs[:: max(1, len(xs) // 400)] + xs[-1:]
    mean = [(x, geomean([_value(line, x) for _, line in lines])) for x in xs]
    values = [y for _, line in lines for _, y in line] + [y for _, y in mean] + [1.0]
    chart = Chart(
        f"Speedup over {baseline} against {measure} of each task",
        Axis.over(measure, xs, whole=measure in WHOLE),
        Axis.over(f"{baseline} / best", values, log=True),
    )
    chart.level(1.0, "c6", f"as fast as {baseline}")
    for row, line in lines[:MOST_TASKS]:
        ended = [*line, (chart.x.high, line[-1][1])] if line else []
        chart.steps(ended, "c6 thin", f"{row.task}: {line[-1][1]:.2f}" if line else row.task)
    chart.steps(mean, "c0 thick", f"geometric mean: {mean[-1][1]:.2f}")
    chart.legend += [("c0", f"geometric mean of {len(found)} tasks"), ("c6", "one task")]
    return chart.svg()


def _speedups(row: Row, points: Sequence[Point], of: Callable[[Point], float], baseline: str) -> list[XY]:
    theirs = row.baselines.get(baseline)
    return [(of(p), theirs / p.best_ms) for p in points if theirs and p.best_ms]


def _value(line: Sequence[XY], x: float) -> float:
    """Return the height of a line of steps, 1 before it begins."""
    return next((y for at, y in reversed(line) if at <= x), 1.0)


class Limit(NamedTuple):
    """A unit of a card, what a program has it do, and what it can do in a second."""

    unit: str
    amount: float
    rate: float


DRAM = "dram"


def limits_of(sol: SolReport, bound_ms: float | None) -> list[Limit]:
    """Return the limits in a report of `mucc sol --json`: those of the assumption whose bound is in use."""
    versions: list[BoundJson] = [sol, *sol.get("assumptions", {}).values()]

    def distance(version: BoundJson) -> float:
        bound = version.get("bound_us", 0.0)
        return abs(math.log(bound / 1e3 / bound_ms)) if bound > 0 and bound_ms else math.inf

    found: list[Limit] = []
    for unit, limit in min(versions, key=distance).get("limits", {}).items():
        amount, rate = limit["amount"], limit.get("rate", 0)
        if amount > 0 and rate > 0:
            found.append(Limit(unit, float(amount), float(rate)))
    return found


def roofline(row: Row, run: TaskRun) -> Markup | None:
    """Operations per second over operations per byte: the roofs, and where the bound, the program as
    imported and the best are."""
    limits = limits_of(run.record.task.sol, row.bound_ms)
    dram = next((x for x in limits if x.unit == DRAM), None)
    work = max((x for x in limits if x.unit != DRAM), key=lambda x: x.amount / x.rate, default=None)
    if dram is None or work is None or not row.bound_ms:
        return None
    intensity = work.amount / dram.amount
    first = run.by_number.get(0)
    marks = [
        (row.bound_ms, "c7", "bound"),
        (first.outcome.ms if first else None, "c2", "as imported"),
        (row.ms, "c0", "best"),
    ]
    placed = [(work.amount / ms * 1e3, cls, name, ms) for ms, cls, name in marks if ms]
    ridge = work.rate / dram.rate
    across = Axis.over(
        f"{work.unit} operations per byte", (intensity / 6, intensity * 6, ridge / 4, ridge * 6), log=True
    )
    up = Axis.over(
        "operations per second",
        (work.rate * 1.3, min(work.rate, across.low * dram.rate), *(y for y, *_ in placed)),
        log=True,
    )
    chart = Chart("Roofline", across, up)
    corners = (across.low, ridge, across.high)
    chart.line([(x, min(work.rate, x * dram.rate)) for x in corners], "c6 thick", f"{work.unit} and {DRAM}")
    chart.legend.append(("c6", f"{work.unit} {short(work.rate)}op/s, {DRAM} {short(dram.rate)}B/s"))
    for y, cls, name, ms in placed:
        chart.dot(intensity, y, cls, f"{name}: {ms:.4g} ms, {short(y)}op/s", 5.0)
        chart.legend.append((cls, f"{name} {ms:.4g} ms"))
    return chart.svg()
