"""Report replays of policies, as text and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from mucc.agent.budget.choosing import EVERYTHING, Choice, Held
from mucc.agent.budget.replay import Measure, Policy
from mucc.agent.budget.traces import Trace, trace_of
from mucc.agent.report.chart import Axis, Chart
from mucc.agent.report.document import document
from mucc.agent.report.markup import Markup, h, join
from mucc.agent.report.reading import Run, TaskRun, budget_of
from mucc.agent.report.trajectory import points, totals
from mucc.agent.store import TaskState


def traces_of(run: Run) -> list[Trace]:
    """Return the tasks of a run that were searched; what was skipped or never begun decides nothing."""
    return [_trace(task) for task in run.tasks if task.attempts and task.record.state is not TaskState.FAILED]


def _trace(task: TaskRun) -> Trace:
    until = [(point.tokens, point.seconds) for point in points(task)]
    return trace_of(task.record.task, task.attempts, task.batches, until, totals(task))


def policy_of(runs: Sequence[Run]) -> Policy | None:
    """Return the stop rules of the runs if all have the same; None also for a shared budget."""
    found: set[Policy] = set()
    for run in runs:
        budget = budget_of(run.info)
        if budget is None or run.info is None or run.info.options.get("total") is not None:
            return None
        found.add(Policy(budget.epsilon, budget.window, budget.most))
    return found.pop() if len(found) == 1 else None


HEAD = ("policy", "kept", "speedup", "attempts", "saved", "tokens", "saved", "seconds", "saved", "gain")


def _cells(choice: Choice, policy: Policy) -> tuple[str, ...]:
    found = choice.measures[policy]
    return (
        str(policy),
        f"{found.retained:.1%}",
        f"{found.speedup:.3f}",
        str(found.cost.attempts),
        f"{found.attempts_saved:.0%}",
        str(found.cost.tokens),
        f"{found.tokens_saved:.0%}",
        f"{found.cost.seconds:.0f}",
        f"{found.seconds_saved:.0%}",
        f"{found.efficiency:.2f}",
    )


def _shown(choice: Choice) -> list[tuple[str, Policy]]:
    """Return the policies of the table, with what each is there for."""
    special: dict[Policy, list[str]] = {EVERYTHING: ["everything that the runs did"]}
    if choice.own is not None:
        special.setdefault(choice.own, []).append("the runs' own")
    special.setdefault(choice.recommended, []).append("recommended")
    order = [EVERYTHING, *([choice.own] if choice.own else []), choice.recommended, *choice.front]
    return [(", ".join(special.get(p, ["best at its cost"])), p) for p in dict.fromkeys(order)]


def text(choice: Choice) -> str:
    """Return the table, the recommendation, and how it holds on problems that it was not chosen on."""
    rows = [(*_cells(choice, policy), note) for note, policy in _shown(choice)]
    lines = [(*HEAD, ""), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(
            cell.ljust(w) if n in (0, len(HEAD)) else cell.rjust(w)
            for n, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*table, *sentences(choice)]) + "\n"


def sentences(choice: Choice) -> list[str]:
    """Return the recommendation in words."""
    found = choice.measures[choice.recommended]
    several = f"{choice.tasks} tasks, {choice.problems} problems, {len(choice.measures)} policies"
    lines = [f"{several}; cost is in {found.by}"]
    if choice.own is not None and (choice.own.epsilon, choice.own.window) != (None, None):
        lines.append(f"the runs stopped by {choice.own}: what they did not try cannot be replayed")
    if choice.recommended == EVERYTHING:
        lines.append(f"no policy that stops earlier keeps {choice.keep:.0%} of the speedup")
        return lines
    saved = found.tokens_saved if found.by == "tokens" else found.attempts_saved
    kept = f"{found.retained:.1%} of the speedup for {saved:.0%} fewer {found.by}"
    lines.append(f"recommended: {choice.recommended}: {kept}")
    lines.append(f"  mucc-agent optimize ... {as_options(choice)}")
    for name, held in (("leaving one problem out", choice.left_out), ("split halves", choice.halves)):
        if held is not None:
            lines.append(f"{name}: {_held(held, found.by)}")
    return lines


def as_options(choice: Choice) -> str:
    """Return the recommended policy on the command line."""
    policy = choice.recommended
    epsilon = "none" if policy.epsilon is None else f"{policy.epsilon:g}"
    words = [f"--epsilon {epsilon}", f"--window {policy.window or 'none'}"]
    if policy.most is not None:
        words.append(f"--budget {_product(policy.most)}")
    if policy.share is not None:
        words.append(f"--total {round(policy.share * choice.measures[EVERYTHING].cost.attempts)}")
    return " ".join(words)


def _product(most: int) -> str:
    hypotheses = 2 if most % 2 == 0 else 1
    attempts = next(n for n in (4, 3, 2, 1) if most % (hypotheses * n) == 0)
    return f"{most // hypotheses // attempts}x{hypotheses}x{attempts}"


def _held(held: Held, by: str) -> str:
    saved = held.tokens_saved if by == "tokens" else held.attempts_saved
    common, times = next(iter(held.chosen.items()))
    return (
        f"what is chosen without them keeps {held.retained:.1%} there for {saved:.0%} fewer {by}, "
        f"{held.worst:.1%} at the worst; {times} of {held.splits} choices are {common}"
    )


def plot(choice: Choice, by: str) -> Markup:
    """Return the speedup that policies keep against what they spend, in attempts or tokens."""

    def spent(found: Measure) -> float:
        return found.cost.tokens if by == "tokens" else found.cost.attempts

    kept = [found.retained for found in choice.measures.values()]
    chart = Chart(
        f"Speedup kept against {by}",
        Axis.over(by, [spent(found) for found in choice.measures.values()]),
        Axis.between("speedup kept", min(kept), max(kept)),
    )
    chart.level(choice.keep, "c7", f"{choice.keep:.0%}")
    for policy, found in choice.measures.items():
        chart.dot(
            spent(found), found.retained, "c6", f"{policy}: {found.retained:.1%}, {spent(found):.0f}", 2.0
        )
    if by == choice.measures[EVERYTHING].by:
        front = [choice.measures[policy] for policy in choice.front]
        chart.steps([(spent(found), found.retained) for found in front], "c0", "the best at each cost")
        chart.legend.append(("c0", "the best at each cost"))
    marks = [
        (EVERYTHING, "c2", "everything"),
        (choice.own, "c3", "the runs' own"),
        (choice.recommended, "c4", "recommended"),
    ]
    for policy, cls, name in marks:
        if policy is not None:
            found = choice.measures[policy]
            chart.dot(spent(found), found.retained, cls, f"{name}: {policy}, {found.retained:.1%}", 5.0)
            chart.legend.append((cls, name))
    chart.legend.append(("c7", f"{choice.keep:.0%}"))
    return chart.svg()


def page(choice: Choice, names: Sequence[str]) -> str:
    """Everything as one HTML page."""
    head = h("tr", *(h("th", name, cls="n" if n else None) for n, name in enumerate(HEAD)), h("th", ""))
    rows = [
        h(
            "tr",
            *(h("td", cell, cls="n" if n else "w") for n, cell in enumerate(_cells(choice, policy))),
            h("td", note),
        )
        for note, policy in _shown(choice)
    ]
    measures = ["attempts", *(["tokens"] if choice.measures[EVERYTHING].cost.tokens else [])]
    body = [
        h("h1", "Policies replayed over stored runs"),
        h("p", ", ".join(names), cls="quiet"),
        join(h("p", line) for line in sentences(choice)),
        h("div", *(plot(choice, by) for by in measures), cls="charts"),
        h("h2", "Policies"),
        h("div", h("table", h("thead", head), h("tbody", *rows)), cls="wide"),
        h("p", NOTE, cls="quiet"),
    ]
    return document("Policies replayed: mucc-agent", body)


NOTE = (
    "kept: the geometric mean of speedups over PyTorch's defaults, over that of everything that the runs "
    "did. gain: what is kept, times the cost of everything over the policy's. ε stops within so much of the "
    "speed of light, w after so many attempts without progress, both only once the fastest baseline is "
    "beaten; shared: so much of all attempts for all tasks together, which go where the most may be gained."
)
