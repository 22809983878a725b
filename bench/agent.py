"""What runs of `mucc-agent optimize` come to: speedups over the baselines, overhead, and stop rules replayed.

    python -m bench.agent RUN... --record agent

Measures nothing: everything is in the stores of the runs. A task that is in several runs counts as in the
last that is named; stop rules are replayed over all.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.common import RESULTS, run_main, write_result
from bench.kernelbench.report import figures_text, plot
from mucc.agent.budget.choosing import EVERYTHING, Choice, choose
from mucc.agent.core.tasks import BASELINES
from mucc.agent.report import replays, text
from mucc.agent.report.figures import Row, figures, overhead, row_of, seconds
from mucc.agent.report.reading import Run, read_run
from mucc.files.atomic import replace_file

PREFIX = "agent."


def rows_of(runs: Sequence[Run]) -> dict[str, Row]:
    """The row of every task, by its key."""
    return {row.task: row for run in runs for row in map(row_of, run.tasks)}


def chosen(runs: Sequence[Run]) -> Choice | None:
    """The replayed stop rules; None where there is no attempt."""
    sets = [traces for run in runs if (traces := replays.traces_of(run))]
    return choose(sets, own=replays.policy_of(runs)) if sets else None


def summary(rows: Sequence[Row], choice: Choice | None) -> dict[str, float]:
    """The figures."""
    own = figures(rows)
    found = {f"own_set_over_{name}_geomean": own[f"over_{name}_geomean"] for name in BASELINES}
    counted = ("tasks", "counted", "fallbacks", "unfinished", "attempts", "tokens", "gap_geomean")
    found |= {name: own[name] for name in counted if name in own}
    found |= {name.replace(".", "_"): value for name, value in own.items() if ".over_" in name}
    if (share := overhead(seconds(rows))) is not None:
        found["overhead_share"] = round(share, 5)
    if choice is not None:
        found |= _replayed(choice)
    return {PREFIX + name: value for name, value in found.items()}


def _replayed(choice: Choice) -> dict[str, float]:
    kept = choice.measures[choice.recommended]
    found: dict[str, float] = {
        "replay_retained": kept.retained,
        "replay_attempts_saved": kept.attempts_saved,
        "replay_seconds_saved": kept.seconds_saved,
        "replay_efficiency": kept.efficiency,
    }
    if choice.measures[EVERYTHING].cost.tokens:
        found["replay_tokens_saved"] = kept.tokens_saved
    for name, held in (("left_out", choice.left_out), ("halves", choice.halves)):
        if held is not None:
            found[f"replay_{name}_retained"] = held.retained
            found[f"replay_{name}_attempts_saved"] = held.attempts_saved
    return {name: round(value, 4) for name, value in found.items()}


def table(runs: Sequence[Run], choice: Choice | None, found: Mapping[str, float]) -> str:
    """Everything for people."""
    parts = [text.text(run) for run in runs]
    if choice is not None:
        parts.append(replays.text(choice))
    return "\n".join((*parts, figures_text(found)))


def plot_replay(choice: Choice, path: Path) -> None:
    """What policies keep against what they spend. Raises ImportError without matplotlib."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(6, 4))
    found = list(choice.measures.values())
    axes.scatter([m.cost.attempts for m in found], [m.retained for m in found], s=6, color="silver")
    front = [choice.measures[policy] for policy in choice.front]
    axes.step([m.cost.attempts for m in front], [m.retained for m in front], where="post", label="best")
    for policy, name in ((EVERYTHING, "everything"), (choice.recommended, "recommended")):
        axes.scatter([choice.measures[policy].cost.attempts], [choice.measures[policy].retained], label=name)
    axes.axhline(choice.keep, color="black", linewidth=0.8)
    axes.set(xlabel="attempts", ylabel="speedup kept", title=f"recommended: {choice.recommended}")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def record(name: str, runs: Sequence[Run], rows: Mapping[str, Row], choice: Choice | None) -> Path:
    """Write `bench/results/<card>/<name>.*` and return the path of the JSON file."""
    card = next((task.record.task.card for run in runs for task in run.tasks), "none")
    found = summary(list(rows.values()), choice)
    infos = [run.info for run in runs if run.info is not None]
    versions = {key: value for info in infos for key, value in info.versions.items()}
    versions |= {"mucc": infos[-1].mucc} if infos else {}
    entries = [row.to_json() | {"problem": row.task} for row in rows.values()]
    path = write_result(card, name, entries, found, extra_versions=versions)
    replace_file(str(path.with_suffix(".txt")), table(runs, choice, found).encode())
    try:
        drawn = [e for e in entries if e["default_ms"] and e["default_speedup"]]
        plot(drawn, path.with_suffix(".png"), f"mucc-agent on {card}: baseline / mucc")
        if choice is not None:
            plot_replay(choice, path.with_name(f"{name}.replay.png"))
    except ImportError:
        sys.stderr.write("no plots: matplotlib is not installed\n")
    return path


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables; with --record keep them."""
    parser = argparse.ArgumentParser(prog="bench.agent", description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--record", metavar="NAME", help=f"write {RESULTS.name}/<card>/NAME.{{json,txt,png}}")
    args = parser.parse_args(argv)
    runs = [read_run(path) for path in args.runs]
    rows, choice = rows_of(runs), chosen(runs)
    print(table(runs, choice, summary(list(rows.values()), choice)), end="")
    if args.record:
        print(record(args.record, runs, rows, choice))


if __name__ == "__main__":
    run_main(main)
