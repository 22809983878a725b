"""Render an attempt: its change and hypothesis, its outcome."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate, Status, VerdictJson
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.report.markup import Markup, h, join, markdown
from mucc.agent.report.reading import TaskRun
from mucc.agent.report.room import Room
from mucc.api.diagnostics import Source, from_json, render_text
from mucc.api.json_types import DiagnosticJson

COLOUR = {Status.GOOD: "good", Status.REJECTED: "bad", Status.WRONG: "bad", Status.CRASHED: "bad"}

LINES = 400
"""Of a diff or a program, at the most."""


def attempt_details(run: TaskRun, attempt: Attempt, room: Room) -> Markup:
    """Render one attempt, folded to a line with its outcome."""
    outcome, candidate = attempt.outcome, attempt.candidate
    best = run.best is not None and run.best.number == attempt.number
    counts = (
        "" if attempt.ms is not None or outcome.ms is None else "not audited" if not outcome.audited else ""
    )
    ms = f"{outcome.ms:.4f} ms" if outcome.ms is not None else ""
    head = h(
        "summary",
        h("span", f"#{attempt.number}", cls="num"),
        h("span", str(outcome.status), cls=f"state {COLOUR.get(outcome.status, 'warn')}"),
        h("span", ms, cls="ms best" if best else "ms"),
        h("span", room.cut(candidate.change, 300) or "as imported", cls="what best" if best else "what"),
        h("small", "the best" if best else counts),
    )
    parts = [
        head,
        _facts(attempt, run, room),
        _hypothesis(run.hypotheses.get(candidate.hypothesis or 0), candidate, room),
        *_outcome(attempt, room),
        _program(run, candidate, room),
    ]
    name = f"{anchor(run)}-{attempt.number}"
    return h("details", *parts, cls="attempt", id=name, data_status=str(outcome.status))


def pending_details(run: TaskRun, number: int, candidate: Candidate, room: Room) -> Markup:
    """Return an attempt without an outcome: it goes on, or the run was ended."""
    head = h(
        "summary",
        h("span", f"#{number}", cls="num"),
        h("span", "begun", cls="state quiet"),
        h("span", room.cut(candidate.change, 300), cls="what"),
    )
    hypothesis = _hypothesis(run.hypotheses.get(candidate.hypothesis or 0), candidate, room)
    return h("details", head, hypothesis, _program(run, candidate, room), cls="attempt", data_status="begun")


def anchor(run: TaskRun) -> str:
    """Return the id of a task's section."""
    return f"task{run.place}"


def definitions(pairs: Sequence[tuple[str, str | Markup]]) -> Markup | None:
    """Names and values, those that are not empty."""
    found = [join((h("dt", name), h("dd", value))) for name, value in pairs if value]
    return h("dl", *found) if found else None


def _facts(attempt: Attempt, run: TaskRun, room: Room) -> Markup | None:
    outcome, candidate = attempt.outcome, attempt.candidate
    parent = candidate.parent
    link: str | Markup = "" if parent is None else f"#{parent}"
    if parent is not None and room.shows(run, parent):
        link = h("a", link, href=f"#{anchor(run)}-{parent}")
    took = ", ".join(f"{name} {value:.2f} s" for name, value in outcome.seconds.items())
    spread = f"{outcome.spread_ms:.4f} ms between quartiles" if outcome.spread_ms is not None else ""
    facts = ", ".join(f"{k} {_plain(v)}" for k, v in outcome.facts.items())
    return definitions(
        [
            ("made from", link),
            ("reason", room.cut(outcome.reason, 1500)),
            ("label", room.cut(outcome.label, 100)),
            ("spread", spread),
            ("stages took", took),
            ("facts", room.cut(facts, 1000)),
        ]
    )


def _plain(value: Any) -> str:
    return (
        f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )


def _hypothesis(found: Hypothesis | None, candidate: Candidate, room: Room) -> Markup | None:
    if found is None or candidate.hypothesis is None:
        return None
    says = f"{found.kind}, expected {found.speedup:.2f}x, "
    says += f"risks {found.implementation_risk:g} to write and {found.performance_risk:g} to help"
    return join(
        (
            h("h4", f"Hypothesis {candidate.hypothesis}: ", room.cut(found.title, 300)),
            h("p", h("small", says)),
            h("div", markdown(room.cut(found.rationale, 3000)), cls="prose") if found.rationale else None,
        )
    )


def _outcome(attempt: Attempt, room: Room) -> list[Markup]:
    outcome = attempt.outcome
    found: list[Markup] = []
    if outcome.diagnostics:
        entries = [_diagnostic(d, attempt.candidate.program, room) for d in outcome.diagnostics[:20]]
        found.append(join((h("h4", "Diagnostics"), h("pre", *entries))))
    if outcome.verdict:
        found += [h("h4", "Verdict of the audit"), verdict(outcome.verdict, room)]
    if outcome.printed:
        found.append(join((h("h4", "Printed"), h("pre", room.cut(outcome.printed, 4000)))))
    return found


def _diagnostic(said: DiagnosticJson, program: str, room: Room) -> Markup:
    """One diagnostic as mucc shows it, with the line of the program."""
    try:
        shown = render_text(from_json(said), Source("candidate.mcu", program))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):  # not as mucc writes them
        shown = f"{said.get('severity', 'error')}[{said['code']}]: {said['message']}"
    bad = said.get("severity", "error") == "error"
    first, _, rest = room.cut(shown, 2000).partition("\n")
    return join((h("span", first, cls="bad" if bad else "warn"), rest, "\n" if rest else ""))


def verdict(said: VerdictJson, room: Room) -> Markup:
    """Render a verdict."""
    state = "accepted" if said.get("accepted") else "rejected"
    label = room.cut(str(said.get("label", "")), 100)
    lines: list[Markup] = [h("p", h("b", label), f", {state}", cls="good" if said.get("accepted") else "bad")]
    entries: list[Markup] = []
    for finding in said.get("findings", [])[:40]:
        words = f"{finding.get('severity', '')}: {finding.get('detector', '')}: {finding.get('message', '')}"
        bad = finding.get("severity") == "reject"
        entries.append(h("li", room.cut(words, 600), cls="bad" if bad else None))
    if entries:
        lines.append(h("ul", *entries))
    if failure := said.get("failure"):
        lines.append(h("pre", room.cut(f"{failure['message']}\n{failure['printed']}", 2000)))
    return join(lines)


def _program(run: TaskRun, candidate: Candidate, room: Room) -> Markup:
    parent = run.by_number.get(candidate.parent) if candidate.parent is not None else None
    if parent is None:
        shown = code(candidate.program, room)
        return h("details", h("summary", "Program"), shown)
    if parent.candidate.program == candidate.program:
        return h("p", f"The program of #{parent.number}, unchanged.", cls="quiet")
    title = h("h4", f"Change to the program of #{parent.number}")
    return join((title, diff(parent.candidate.program, candidate.program, room)))


def code(text: str, room: Room) -> Markup:
    """Return a program or another file."""
    return h("pre", room.cut(text, 60_000))


def diff(old: str, new: str, room: Room) -> Markup:
    """Render a unified diff in colours."""
    before, after = _lines(old), _lines(new)
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    shown: list[Markup] = []
    for line in lines[:LINES]:
        kind = {"+": "a", "-": "r", "@": "q"}.get(line[:1])
        shown.append(h("span", room.cut(line, 400) or " ", cls=kind))
    if len(lines) > LINES:
        shown.append(h("span", f"… {len(lines) - LINES} lines more", cls="q"))
    return h("pre", *shown)


def _lines(text: str) -> list[str]:
    """Return the lines of a program; of an overlong one only its beginning, as diffs are slow."""
    return text[:200_000].splitlines()[:2000]
