"""A run as text: the table against baselines, and what it comes to."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from mucc.agent.core.tasks import BASELINES
from mucc.agent.report.board import one_line
from mucc.agent.report.figures import Row, figures, overhead, row_of, seconds
from mucc.agent.report.reading import Run
from mucc.api.progress import is_terminal

if TYPE_CHECKING:
    from rich.console import Console

HEAD = ("task", "state", "precision", "compiled", "label", "ms", *BASELINES, "bound", "gap", "tried", "why")
NUMERIC = frozenset(("compiled", "ms", *BASELINES, "bound", "gap", "tried"))
WIDTH = 170
"""Columns where the output is no terminal."""


def write(run: Run, stream: TextIO) -> None:
    """Write the table and the summary, as wide as the terminal if the output is one."""
    from rich.console import Console

    if is_terminal(stream):
        _print(run, Console(file=stream, highlight=False, emoji=False))
    else:
        stream.write(text(run))


def text(run: Run, width: int = WIDTH) -> str:
    """Return the same as plain text."""
    from rich.console import Console

    file = io.StringIO()
    _print(run, Console(file=file, width=width, highlight=False, emoji=False, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _print(run: Run, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = [row_of(task) for task in run.tasks]
    for line in head_lines(run):
        console.print(Text(line), soft_wrap=True)
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for name in HEAD:
        table.add_column(
            name,
            justify="right" if name in NUMERIC else "left",
            no_wrap=name != "why",
            overflow="fold" if name == "why" else "ellipsis",
            ratio=1 if name == "why" else None,
            min_width=20 if name == "why" else None,
        )
    for row in rows:
        table.add_row(*map(Text, cells(row)))
    if rows:
        console.print(table)
    for line in summary_lines(run, rows):
        console.print(Text(line), soft_wrap=True)


def head_lines(run: Run) -> list[str]:
    """Return the lines on what was run, and on what."""
    info = run.info
    if info is None:
        return [f"{run.name}: the run was ended before it began"]
    on = f" on {info.card}" if info.card else ""
    state = "" if run.ended else "; it has not ended"
    count = len(run.tasks)
    return [f"{run.name}: {count} {'task' if count == 1 else 'tasks'}{on}{state}", f"  {info.command}"]


def cells(row: Row) -> tuple[str, ...]:
    """Return a line of the table. A baseline's column has its time over ours, 1 in brackets where the task
    falls back to it; `~` marks a time that was not compared in the end.
    """
    return (
        one_line(row.task, 48),
        str(row.state),
        row.precision,
        row.compiled,
        one_line(row.label, 20) or "-",
        *measured(row),
        one_line("; ".join(filter(None, (row.stop, row.problems)))) or "-",
    )


def measured(row: Row) -> tuple[str, ...]:
    """Return the cells of a line from the time to the attempts."""
    return (
        number(row.ms, ".4f") + ("~" if row.provisional else ""),
        *(ratio(row, name) for name in BASELINES),
        number(row.bound_ms, ".4f"),
        number(row.gap, ".2f"),
        str(row.attempts),
    )


def ratio(row: Row, baseline: str) -> str:
    """Return the speedup over a baseline, as a cell."""
    if not row.judged:
        return "-"
    if row.ms is None or baseline not in row.baselines:
        return "(1)"
    return f"{row.speedup(baseline):.2f}"


def number(value: float | None, form: str) -> str:
    """Return a number in a form, `-` where there is none."""
    return "-" if value is None else format(value, form)


def summary_lines(run: Run, rows: Sequence[Row]) -> list[str]:
    """Return the lines on the results of all tasks."""
    if not rows:
        return ["no task was begun"]
    found = figures(rows)
    means = ", ".join(f"{found[f'over_{name}_geomean']:.2f}x over {name}" for name in BASELINES)
    lines = [f"geomean of {len(rows) - found['unfinished']:.0f} tasks: {means}"]
    notes = [
        f"{found[name]:.0f} {words}"
        for name, words in (("fallbacks", "in it as 1"), ("unfinished", "left out, not finished"))
        if found[name]
    ]
    if notes:
        lines[0] += f" ({', '.join(notes)})"
    calls = sum(len(task.calls) for task in run.tasks)
    lines.append(f"{found['attempts']:.0f} attempts" + (f", {calls} model calls" if calls else ""))
    if calls:
        costs = [row.cost for row in rows if row.cost is not None]
        lines[-1] += f", {found['tokens']:.0f} tokens" + (f", ${sum(costs):.2f}" if costs else "")
    if went := went_line(seconds(rows)):
        lines.append(went)
    return lines


def went_line(spent_s: Mapping[str, float]) -> str:
    """Where time went; empty where nothing was noted."""
    share = overhead(spent_s)
    if share is None:
        return ""
    parts = ", ".join(f"{kind} {value:.1f} s" for kind, value in spent_s.items() if value > 0)
    return f"time: {parts}; the agent's own work is {share:.1%}"
