"""A task in a page: how it went, its attempts, what phases left, what models were asked."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.core.proposer import Call
from mucc.agent.core.tasks import BASELINES
from mucc.agent.report.attempts import (
    anchor,
    attempt_details,
    code,
    definitions,
    pending_details,
    verdict,
)
from mucc.agent.report.chart import bar
from mucc.agent.report.charts import MEASURES, roofline, trajectory
from mucc.agent.report.figures import KINDS, Row
from mucc.agent.report.markup import Markup, h, join, markdown
from mucc.agent.report.reading import TaskRun
from mucc.agent.report.room import Room
from mucc.agent.report.text import number, ratio
from mucc.agent.report.trajectory import Point
from mucc.agent.store import Document, TaskState


def task_section(run: TaskRun, row: Row, points: Sequence[Point], room: Room) -> Markup:
    """Return the section of a task."""
    charts = [trajectory(row, points, measure) for measure in MEASURES if _moves(points, measure)]
    charts.insert(1, roofline(row, run))
    drawn = [chart for chart in charts if chart]
    parts = [
        h("h2", room.cut(row.task, 200), h("a", "all results", href="#results", cls="up"), id=anchor(run)),
        _summary(run, row, room),
        h("div", *drawn, cls="charts") if drawn else None,
        _best(run, room),
        _attempts(run, room),
        _documents(run.documents, room),
        _calls(run.calls, room),
        _time(row),
        _files(run, room),
    ]
    return h("section", *parts)


def _moves(points: Sequence[Point], measure: str) -> bool:
    return bool(points) and MEASURES[measure](points[-1]) > 0


def _summary(run: TaskRun, row: Row, room: Room) -> Markup | None:
    times = ", ".join(f"{name} {row.baselines[name]:.4f} ms" for name in BASELINES if name in row.baselines)
    over = ", ".join(f"{ratio(row, name)} over {name}" for name in BASELINES if row.ms)
    statuses = ", ".join(f"{count} {status}" for status, count in row.statuses.items())
    notes = {
        TaskState.SKIPPED: "mucc has no kernels for it: no attempt was spent",
        TaskState.WAITING: "it has not begun",
        TaskState.RUNNING: "its search has not ended",
    }
    task = run.record.task
    pairs: list[tuple[str, str | Markup]] = [
        ("state", f"{row.state}: {notes[row.state]}" if row.state in notes else str(row.state)),
        ("why it stopped", room.cut(row.stop, 500)),
        (
            "best",
            f"{row.ms:.4f} ms{' (not compared side by side yet)' if row.provisional else ''}"
            if row.ms
            else "",
        ),
        ("speedup", over),
        ("baselines", times),
        ("bound", f"{row.bound_ms:.4f} ms, gap {number(row.gap, '.2f')}" if row.bound_ms else ""),
        ("precision", row.precision),
        ("compiled", row.compiled),
        ("not done", room.cut(row.problems, 1000)),
        ("attempts", f"{row.attempts} ({statuses})" if statuses else ""),
        ("problem", task.path),
    ]
    return definitions(pairs)


def _best(run: TaskRun, room: Room) -> Markup | None:
    if run.best is None:
        return None
    said = run.best.outcome.verdict
    parts = [
        h("h3", "The best program"),
        h("p", h("a", f"attempt #{run.best.number}", href=f"#{anchor(run)}-{run.best.number}")),
        code(run.best.candidate.program, room),
        verdict(said, room) if said else None,
    ]
    return join(parts)


def _attempts(run: TaskRun, room: Room) -> Markup | None:
    shown = [attempt for attempt in run.attempts if room.shows(run, attempt.number)]
    found = [attempt_details(run, attempt, room) for attempt in shown]
    if len(shown) < len(run.attempts):
        words = f"{len(run.attempts) - len(shown)} more are left out for their number; the store has all."
        found.append(h("p", words, cls="quiet"))
    found += [pending_details(run, number, candidate, room) for number, candidate in run.pending]
    if not found:
        return None
    statuses = dict.fromkeys(str(attempt.outcome.status) for attempt in shown)
    choices = [h("option", "all", value=""), *(h("option", status, value=status) for status in statuses)]
    tools = h(
        "div",
        h("button", "open all", type="button", data_act="open"),
        h("button", "close all", type="button", data_act="close"),
        h("select", *choices, aria_label="only attempts that are"),
        cls="tools",
    )
    return h("div", h("h3", f"Attempts ({len(run.attempts) + len(run.pending)})"), tools, *found)


def _documents(found: Sequence[Document], room: Room) -> Markup | None:
    if not found:
        return None
    entries = [
        h(
            "details",
            h("summary", room.cut(document.phase, 100)),
            h("div", markdown(room.cut(document.markdown, 20_000)), cls="prose"),
        )
        for document in found
    ]
    return join((h("h3", "What phases left"), *entries))


def _calls(calls: Sequence[Call], room: Room) -> Markup | None:
    if not calls:
        return None
    names = ("model", "for", "read", "cached", "written", "cost", "seconds", "")
    head = h("tr", *(h("th", name, cls="n" if name in names[2:7] else None) for name in names))
    lines = [_call(call, room) for call in calls]
    table = h("table", h("thead", head), h("tbody", *lines))
    note = "Tokens as the provider counted them; ≈ marks an estimate."
    return join(
        (h("h3", f"Model calls ({len(calls)})"), h("div", table, cls="wide"), h("p", note, cls="quiet"))
    )


def _call(call: Call, room: Room) -> Markup:
    mark = "≈" if call.estimated else ""
    said = [h("p", room.cut(call.error, 500), cls="bad")] if call.error else []
    for title, text in (("prompt", call.prompt), ("answer", call.answer)):
        if text:
            said.append(h("details", h("summary", title), h("pre", room.cut(text, 12_000))))
    cells = [
        h("td", room.cut(f"{call.provider} {call.model}", 120)),
        h("td", room.cut(call.purpose, 80)),
        *(
            h("td", f"{mark}{n}", cls="n")
            for n in (call.prompt_tokens, call.cached_tokens, call.answer_tokens)
        ),
        h("td", "-" if call.cost is None else f"${call.cost:.4f}", cls="n"),
        h("td", f"{call.seconds:.1f}", cls="n"),
        h("td", *said, cls="why"),
    ]
    return h("tr", *cells)


def _time(row: Row) -> Markup | None:
    parts = [(kind, row.seconds[kind]) for kind in KINDS if row.seconds.get(kind, 0) > 0]
    parts += [(kind, value) for kind, value in row.seconds.items() if kind not in KINDS and value > 0]
    return join((h("h3", "Where time went"), bar(parts))) if parts else None


def _files(run: TaskRun, room: Room) -> Markup:
    task = run.record.task
    files = [
        ("The problem", task.text),
        ("The program as imported", task.imported.program),
        ("Its driver", task.imported.driver),
    ]
    return join(h("details", h("summary", name), code(text, room)) for name, text in files if text)
