"""Documents of a search's phases: Markdown and JSON, in the store and in files of the run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence

from mucc.agent.core.analysis import Analysis
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.tasks import Task
from mucc.agent.engine.context import RunContext
from mucc.agent.store import Document
from mucc.api.files import replace_file
from mucc.api.json_types import Json, to_json


def write(context: RunContext, key: str, step: int, phase: str, markdown: str, data: Json) -> None:
    """Store the document of a phase, and write it to `RUN/<task>/NN-phase.md` and `.json`."""
    context.store.add_document(key, step, Document(phase, markdown, data, time.time()))
    number = len(context.store.documents(key)) - 1
    path = os.path.join(task_folder(context.folder, key), f"{number:02}-{phase.lower()}")
    replace_file(f"{path}.md", markdown.encode())
    replace_file(f"{path}.json", (json.dumps(data, indent=1) + "\n").encode())


def task_folder(folder: str, key: str) -> str:
    """Return the folder of a task; made if it does not exist."""
    path = os.path.join(folder, *key.split("/"))
    os.makedirs(path, exist_ok=True)
    return path


def measure(task: Task, attempt: Attempt, failed: dict[str, str]) -> tuple[str, Json]:
    """Return the document of the baselines and the program as imported."""
    imported = task.imported
    lines = [
        f"# Measure: {task.key}",
        "",
        f"Precision {task.precision}, on {task.card}, for {task.target}. "
        f"mucc has kernels for {imported.share:.0%} of the bound.",
        "",
        "| what | ms | over the bound |",
        "|---|---|---|",
    ]
    if task.bound_ms:
        lines.append(f"| speed of light | {task.bound_ms:.4f} | 1 |")
    elif task.least_ms:
        lines.append(f"| speed of light, of what is counted | {task.least_ms:.4f} | - |")
    times = {**task.baselines, "as imported": attempt.ms}
    lines += [f"| {name} | {_ms(ms)} | {_over(ms, task.bound_ms)} |" for name, ms in times.items()]
    lines += [f"\n{name} could not be timed: {why}" for name, why in failed.items()]
    lines += ["", attempt_line(attempt)]
    lines += [f"\nWith PyTorch stays {row.operation}: {row.reason}." for row in imported.opaque]
    data = {
        "baselines": dict(task.baselines),
        "failed": failed,
        "bound_ms": task.bound_ms,
        "attempt": attempt.number,
        "ms": attempt.ms,
        "status": attempt.outcome.status.value,
    }
    return "\n".join(lines) + "\n", data


def analyze(task: Task, attempt: int, analysis: Analysis) -> tuple[str, Json]:
    """Return the document of a profile."""
    gap = f", {analysis.gap:.2f} times the bound" if analysis.gap else ""
    lines = [f"# Analyze: attempt {attempt} of {task.key}", "", f"Limited by {analysis.limit}{gap}.", ""]
    for found in analysis.advice:
        where = f" ({found.stage})" if found.stage else ""
        lines.append(f"* **{found.severity}, {found.tool}**{where}: {found.cause}")
        lines += [f"    * {advice}" for advice in found.advice]
    lines += [f"\nNot known: {missing}" for missing in analysis.missing]
    return "\n".join(lines) + "\n", {"attempt": attempt, **to_json(analysis)}


def nominate(task: Task, parent: int, found: Sequence[tuple[int, Hypothesis]]) -> tuple[str, Json]:
    """Return the document of new hypotheses."""
    lines = [f"# Nominate: how to make attempt {parent} of {task.key} faster", ""]
    if not found:
        lines.append("There is nothing more to try.")
    for number, h in found:
        lines += [
            f"## {number}. {h.title}",
            "",
            f"{h.kind}, expected {h.speedup:.2f}x, risks {h.implementation_risk:g} (implementation) and "
            f"{h.performance_risk:g} (performance).",
            "",
            h.rationale,
            "",
        ]
    data = {"parent": parent, "hypotheses": [{"number": n, **to_json(h)} for n, h in found]}
    return "\n".join(lines) + "\n", data


def implement(task: Task, hypotheses: dict[int, Hypothesis], attempts: Sequence[Attempt]) -> tuple[str, Json]:
    """Return the document of the attempts at hypotheses."""
    lines = [f"# Implement: {task.key}", ""]
    for number, hypothesis in hypotheses.items():
        own = [a for a in attempts if a.candidate.hypothesis == number]
        lines += [f"## {number}. {hypothesis.title}", ""]
        lines += [f"* {attempt_line(a)}" for a in own] or ["No program was written."]
        lines.append("")
    data = {
        "attempts": [
            {
                "number": a.number,
                "hypothesis": a.candidate.hypothesis,
                "change": a.candidate.change,
                "status": a.outcome.status.value,
                "ms": a.outcome.ms,
                "audited": a.outcome.audited,
            }
            for a in attempts
        ]
    }
    return "\n".join(lines) + "\n", data


def attempt_line(attempt: Attempt) -> str:
    """Return an attempt in one line."""
    outcome = attempt.outcome
    time_ms = f", {outcome.ms:.4f} ms" if outcome.ms is not None else ""
    label = f", {outcome.label}" if outcome.label else ""
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"Attempt {attempt.number}, {attempt.candidate.change}: {outcome.status}{time_ms}{label}{reason}"


def _ms(ms: float | None) -> str:
    return "-" if ms is None else f"{ms:.4f}"


def _over(ms: float | None, bound: float | None) -> str:
    return f"{ms / bound:.2f}" if ms and bound else "-"
