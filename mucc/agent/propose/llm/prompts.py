"""Build prompts: the role, the language, the task, earlier attempts, and the question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from mucc.agent.core.analysis import Advice, Severity
from mucc.agent.core.attempts import Attempt
from mucc.agent.core.hypotheses import Hypothesis
from mucc.agent.core.proposer import Lesson, View
from mucc.agent.core.tasks import Task
from mucc.agent.propose.llm import history, sol_text
from mucc.agent.propose.llm.answers import KINDS
from mucc.agent.propose.llm.budget import Piece, fitted, tokens
from mucc.agent.propose.llm.endpoint import Message, Prompt
from mucc.api.diagnostics import DiagnosticError

ROLE = """\
You make GPU kernels faster. Kernels are `.mcu` programs for mucc, a compiler to CUTLASS; its reference card
is below, and all that you may use is on it. A PyTorch module was imported as a program; a driver calls its
kernels, and what you write replaces them. Each of your programs is compiled, compared with PyTorch in float64
on fresh and scaled inputs, timed from a cold L2 and audited.

Rules:
- A program is a whole `.mcu` file. Its kernels keep their names, and the names, order, dtypes, shapes and
  layouts of their arguments and results. Bodies, stages and schedules are free.
- A program computes the same for all inputs. Results kept from earlier calls, constants instead of results,
  precision below the policy and skipped work are found and rejected.
- A wrong program costs as much as a good one: keep to what the card says. Sizes are known, so weigh tiles
  against them: tiles in all, waves over the SMs, the length of the loop over K.
- Without a schedule the compiler chooses one by a cost model; a schedule of yours pins it. Change one thing
  at a time where you want to learn from it.
"""

NOMINATE = """\
Name up to {count} hypotheses on how to make attempt #{parent} faster, the most promising first, none that was
tried. A hypothesis is one change (a schedule move, a fusion or a cut of stages, a format within the policy,
other algebra) with the speedup that you expect over attempt #{parent}, and two risks from 1 to 10: that it
cannot be written, and that it does not help. Far from the bound look for what changes the program; near it
tune schedules.

Answer by calling the tool `nominate`. If you have no tools, answer with one JSON object in a fenced block:
```json
{{"hypotheses": [{{"title": "…", "rationale": "…", "kind": "{kinds}",
  "speedup": 1.3, "implementation_risk": 2, "performance_risk": 3}}]}}
```"""

IMPLEMENT = """\
Write up to {count} different programs that test this hypothesis on attempt #{parent}:

{hypothesis}

{earlier}
Answer by calling the tool `implement` with a list of candidates, each with a line `change` and the whole
`program`. If you have no tools, answer for each one with a line `CHANGE: what differs` and a fenced block:
```mcu
the whole program
```
If the hypothesis is not worth another attempt, give an empty list, or answer with the one word DONE."""

FIRST = "It was not tried yet."
AGAIN = "Attempts at it so far: {attempts}. Repair what was rejected, refine what helped; repeat nothing."

POLICIES = {
    "declared": "products of f32 in f32: `compute=f32` or `compute=tf32x3`; no f32 value is stored narrower",
    "tf32": "products of f32 in tf32 or finer, as `a @ b` has it; no f32 value is stored narrower",
    "f16": "products of f32 in f16 or finer: `cast(x, f16) @ cast(w, f16).T`; sums in f32",
    "bf16": "products of f32 in bf16 or finer: `cast(x, bf16) @ cast(w, bf16).T`; sums in f32",
}

SEVERITIES = {Severity.CRITICAL: 70, Severity.WARNING: 55, Severity.INFO: 25}
"""The worth of advice in a prompt; compare `history`."""


@lru_cache(maxsize=1)
def system() -> str:
    """Return the part of prompts that is the same for all tasks."""
    from mucc.api.language import card

    return f"{ROLE}\n{card()}"


def nominate(view: View, count: int, parent: Attempt, context: int, schedules: str = "") -> Prompt:
    """Build the prompt for hypotheses on an attempt, of at most `context` tokens. Raises TooLong.

    `schedules` are those of the attempt, one stage a line.
    """
    question = NOMINATE.format(count=count, parent=parent.number, kinds="|".join(KINDS))
    return _prompt(view, parent, (), schedules, question, context)


def parent_of(view: View, hypothesis: Hypothesis) -> Attempt:
    """Return the attempt that a hypothesis is about."""
    return next((a for a in view.attempts if a.number == hypothesis.parent), view.attempts[0])


def implement(
    view: View,
    number: int,
    hypothesis: Hypothesis,
    earlier: Sequence[Attempt],
    count: int,
    context: int,
    schedules: str = "",
) -> Prompt:
    """Build the prompt for programs that test a hypothesis, of at most `context` tokens. Raises TooLong.

    `schedules` are those of the attempt that it is about, one stage a line.
    """
    parent = parent_of(view, hypothesis)
    told = f"Hypothesis {number} ({hypothesis.kind}): {hypothesis.title}\n{hypothesis.rationale}".rstrip()
    tried = ", ".join(f"#{a.number} {history.result(a)}" for a in earlier)
    question = IMPLEMENT.format(
        count=count,
        parent=parent.number,
        hypothesis=told,
        earlier=AGAIN.format(attempts=tried) if tried else FIRST,
    )
    return _prompt(view, parent, earlier, schedules, question, context)


def _prompt(
    view: View,
    parent: Attempt,
    earlier: Sequence[Attempt],
    schedules: str,
    question: str,
    context: int,
) -> Prompt:
    task = task_text(view.task)
    pieces = [
        *_advice(view),
        *(Piece(f"Learned from other problems:\n{_lesson(x)}", 15) for x in view.lessons[-12:]),
        *history.pieces(view, parent, earlier),
        *([Piece(f"Schedules of #{parent.number} as compiled:\n{schedules}", 68)] if schedules else ()),
        *_hypotheses(view),
    ]
    room = context - tokens(system()) - tokens(task) - tokens(question)
    told = fitted(pieces, room)
    return Prompt(system(), task, (Message("user", "\n\n".join((*told, question))),))


def task_text(task: Task) -> str:
    """Return the part of prompts that is the same for all questions on a task."""
    parts = [
        f"# Task {task.key}: {task.imported.name}, on {_card(task)}",
        f"Precision policy `{task.precision}`: {POLICIES.get(task.precision, task.precision)}.",
        f"The program as imported (attempt #0):\n```mcu\n{task.imported.program.strip()}\n```",
    ]
    if task.imported.opaque:
        left = ", ".join(o.operation for o in task.imported.opaque)
        parts.append(f"PyTorch does the rest, which you cannot change: {left}.")
    if text := sol_text.report(task.sol):
        parts.append(f"Speed of light (`mucc sol`):\n{text}")
    if task.bound_ms:
        parts.append(f"No time below {task.bound_ms:.4g} ms is possible; within 10 % of it nothing is left.")
    elif task.least_ms:
        left = ", ".join(str(name) for name in task.sol.get("missing", []))
        parts.append(f"No time below {task.least_ms:.4g} ms is possible, and {left} is not counted in that.")
    if task.baselines:
        times = ", ".join(f"{name} {ms:.4g} ms" for name, ms in task.baselines.items())
        parts.append(f"Times of PyTorch: {times}.")
    return "\n\n".join(parts)


def _card(task: Task) -> str:
    """Return the card in words, with what schedules are weighed against."""
    from mucc.api.machine import get_card

    try:
        device = get_card(task.card).device
    except DiagnosticError:
        return task.target
    return (
        f"{device.name} ({task.target}): {device.multiprocessors} SMs, {device.l2_bytes / 1e6:.3g} MB of L2"
    )


def _advice(view: View) -> Iterator[Piece]:
    found = view.analysis
    if found is None:
        return
    gap = f", {found.gap:.3g} times the bound" if found.gap else ""
    yield Piece(f"Profile: limited by {found.limit.value}{gap}.", 60)
    for advice in found.advice:
        yield Piece(_one(advice), SEVERITIES[advice.severity])


def _one(advice: Advice) -> str:
    place = f" in stage {advice.stage}" if advice.stage else ""
    lines = [f"{advice.severity.value}{place} ({advice.tool}): {advice.cause}"]
    lines += [f"- {text}" for text in advice.advice]
    return "\n".join(lines)


def _lesson(lesson: Lesson) -> str:
    gain = f"{lesson.speedup:.2f}x" if lesson.speedup is not None else "did not work"
    features = ", ".join(f"{name} {value}" for name, value in lesson.features.items())
    return f"- {lesson.kind}: {lesson.change}: {gain} on {lesson.task}{f' ({features})' if features else ''}"


def _hypotheses(view: View) -> Iterator[Piece]:
    if view.hypotheses:
        lines = [f"- {n} ({h.kind}): {h.title}" for n, h in enumerate(view.hypotheses)]
        yield Piece("Hypotheses so far:\n" + "\n".join(lines), 65)
