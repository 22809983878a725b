"""A run as one HTML page that needs nothing else: no network, no script to be read."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.tasks import BASELINES
from mucc.agent.report.attempts import anchor, definitions
from mucc.agent.report.chart import bar
from mucc.agent.report.charts import MEASURES, speedups
from mucc.agent.report.document import document
from mucc.agent.report.figures import Row, figures, overhead, row_of, seconds
from mucc.agent.report.markup import Markup, h, join
from mucc.agent.report.reading import Run, budget_of
from mucc.agent.report.room import Room
from mucc.agent.report.tasks import task_section
from mucc.agent.report.text import measured, number
from mucc.agent.report.trajectory import Point, points
from mucc.agent.store import RunInfo, TaskState

HEAD = (
    "task",
    "state",
    "precision",
    "compiled",
    "label",
    "ms",
    *BASELINES,
    "bound ms",
    "gap",
    "attempts",
    "why",
)
LESSONS = 300
"""Shown at the most."""

NUMERIC = frozenset(("compiled", "ms", *BASELINES, "bound ms", "gap", "attempts"))

COLOUR = {TaskState.DONE: "good", TaskState.FAILED: "bad", TaskState.RUNNING: "warn"}


def page(run: Run) -> str:
    """Return the whole page."""
    rows = [row_of(task) for task in run.tasks]
    found = [points(task) for task in run.tasks]
    room = Room(run.tasks)
    body = [
        *_head(run, rows),
        h("h2", "Results", id="results"),
        _table(run, rows),
        *_progress(rows, found),
        h("h2", "Where time went", id="time"),
        *_time(rows),
        *_lessons(run, room),
        *(task_section(t, row, ps, room) for t, row, ps in zip(run.tasks, rows, found, strict=True)),
    ]
    return document(f"{run.name}: mucc-agent", body)


def _head(run: Run, rows: Sequence[Row]) -> list[Markup]:
    info = run.info or RunInfo("", "", "")
    count = f"{len(rows)} {'task' if len(rows) == 1 else 'tasks'}"
    where = f" on {info.card}" if info.card else ""
    found = [h("h1", f"{run.name}: {count}{where}"), h("p", h("code", info.command), cls="quiet")]
    if run.info is None:
        found.append(h("p", "The run was ended before it began: there is nothing to show.", cls="notice"))
    elif not run.ended:
        open_ = sum(not task.ended for task in run.tasks)
        words = f"The run has not ended: {open_} of {count} are open. Means leave out what has no result yet."
        found.append(h("p", words, cls="notice"))
    found.append(h("div", *_tiles(run, rows), cls="tiles"))
    precisions = ", ".join(dict.fromkeys(row.precision for row in rows))
    options = ", ".join(
        f"{k} {v}" for k, v in info.options.items() if v not in (None, {}, []) and k != "budget"
    )
    versions = ", ".join(f"{k} {v}" for k, v in ({"mucc": info.mucc} | info.versions).items() if v)
    pairs: list[tuple[str, str | Markup]] = [
        ("started", info.started),
        ("card", info.card),
        ("precision policy", precisions),
        ("versions", versions),
        ("budget", budget_line(info)),
        ("options", options),
        ("store", run.path),
    ]
    return [*found, definitions(pairs) or Markup()]


def budget_line(info: RunInfo) -> str:
    """Return the budget of a task, and the rules that were to stop its search, in a line."""
    budget = budget_of(info)
    if budget is None:
        return ""
    rounds = f"{budget.iterations} x {budget.hypotheses} x {budget.attempts}"
    parts = [f"at most {budget.most} attempts a task ({rounds})"]
    if total := info.options.get("total"):
        parts.append(f"{total} for all tasks together")
    if budget.epsilon is not None:
        parts.append(f"until within {budget.epsilon:.0%} of the bound")
    if budget.window is not None:
        parts.append(f"until {budget.window} attempts without progress")
    spending = (("seconds", budget.seconds), ("tokens", budget.tokens), ("dollars", budget.cost))
    return "; ".join([*parts, *(f"{value:g} {name}" for name, value in spending if value is not None)])


def _tiles(run: Run, rows: Sequence[Row]) -> list[Markup]:
    found = figures(rows)
    tiles = [(f"{found[f'over_{name}_geomean']:.2f}x", f"over {name}, geomean") for name in BASELINES]
    tiles.append((f"{found['counted']:.0f} of {found['tasks']:.0f}", "tasks with a result that counts"))
    tiles.append((f"{found['attempts']:.0f}", "attempts"))
    share = overhead(seconds(rows))
    if share is not None:
        tiles.append((f"{share:.1%}", "of all seconds is the agent's own work"))
    if calls := sum(len(task.calls) for task in run.tasks):
        costs = [row.cost for row in rows if row.cost is not None]
        price = f", ${sum(costs):.2f}" if costs else ""
        tiles.append((f"{found['tokens']:.0f}", f"tokens in {calls} model calls{price}"))
    return [h("div", h("b", value), h("span", words), cls="tile") for value, words in tiles]


def _table(run: Run, rows: Sequence[Row]) -> Markup:
    if not rows:
        return h("p", "No task was begun.", cls="quiet")
    head = h("tr", *(h("th", name, cls="n" if name in NUMERIC else None, data_sort="up") for name in HEAD))
    lines = [_line(row, f"#{anchor(task)}") for row, task in zip(rows, run.tasks, strict=True)]
    found = figures(rows)
    means = [f"{found[f'over_{name}_geomean']:.2f}" for name in BASELINES]
    gap = number(found.get("gap_geomean"), ".2f")
    last = ["geomean", "", "", "", "", "", *means, "", gap, f"{found['attempts']:.0f}", ""]
    cells = [
        h("td", text, cls="n" if name in NUMERIC else None) for name, text in zip(HEAD, last, strict=True)
    ]
    table = h("table", h("thead", head), h("tbody", *lines, h("tr", *cells, cls="sum")))
    words = (
        f"Columns {', '.join(BASELINES)}: the baseline's time over ours, above 1 is faster; (1) where a task "
        f"falls back to it, which is in the mean as 1 ({found['fallbacks']:.0f} of "
        f"{found['tasks'] - found['unfinished']:.0f}). default is PyTorch as it is, tf32 with all products "
        "in tf32, compile is torch.compile with the same. Times are medians from a cold L2; ~ marks one that "
        "has not been compared side by side yet. Attempts do not count the program as imported."
    )
    return join((h("div", table, cls="wide"), h("p", words, cls="quiet")))


def _line(row: Row, link: str) -> Markup:
    texts = (row.precision, row.compiled, row.label or "-", *measured(row))
    cells = [
        h("td", h("a", row.task[:120], href=link), cls="w"),
        h("td", str(row.state), cls=COLOUR.get(row.state, "quiet")),
        *(h("td", t, cls="n" if n in NUMERIC else None) for n, t in zip(HEAD[2:-1], texts, strict=True)),
        h("td", "; ".join(filter(None, (row.stop, row.problems)))[:400] or "-", cls="why"),
    ]
    return h("tr", *cells)


def _progress(rows: Sequence[Row], found: Sequence[Sequence[Point]]) -> list[Markup]:
    drawn = [speedups(rows, found, measure, "default") for measure in MEASURES]
    compiled = [speedups(rows, found, "attempts", "compile")]
    charts = [chart for chart in (*compiled, *drawn) if chart]
    if not charts:
        return []
    note = "Each task spends for itself: what is drawn at 10 is what all tasks had after 10 attempts each."
    return [
        h("h2", "How it went", id="progress"),
        h("p", note, cls="quiet"),
        h("div", *charts, cls="charts"),
    ]


def _time(rows: Sequence[Row]) -> list[Markup]:
    spent_s = seconds(rows)
    share = overhead(spent_s)
    if share is None:
        return [h("p", "Nothing was noted.", cls="quiet")]
    words = (
        f"Seconds of all tasks together, by kind. The overhead, the agent's own part, is {share:.2%}. "
        "gpu is running and timing, audit judging, wait is for other tasks to give the GPU or a core back."
    )
    return [bar([(k, v) for k, v in spent_s.items() if v > 0]), h("p", words, cls="quiet")]


def _lessons(run: Run, room: Room) -> list[Markup]:
    """Return the memory across problems: the kinds of changes that helped, by how much, and those that did
    not.
    """
    if not run.lessons:
        return []
    head = h("tr", h("th", "problem"), h("th", "kind"), h("th", "change"), h("th", "speedup", cls="n"))
    rows = [
        h(
            "tr",
            h("td", room.cut(lesson.task, 120)),
            h("td", room.cut(lesson.kind, 40)),
            h("td", room.cut(lesson.change, 200), cls="why"),
            h("td", number(lesson.speedup, ".2f"), cls="n"),
        )
        for lesson in run.lessons[:LESSONS]
    ]
    table = h("div", h("table", h("thead", head), h("tbody", *rows)), cls="wide")
    return [
        h("h2", "What was learnt", id="lessons"),
        h("details", h("summary", f"{len(run.lessons)} lessons for further problems"), table),
    ]
