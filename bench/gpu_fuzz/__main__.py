"""Random programs, built and run on this GPU, against float64 and an independent reference in PyTorch.

    python -m bench.gpu_fuzz --programs 300 --seconds 540 -j 16

Draws programs until so many were accepted by the compiler, builds them, calls each with fresh random
inputs (those with open dims at several sizes), and compares. `--forms 'norms|pools'` draws programs of those
forms alone; `bench/gpu_fuzz/forms.py` lists them. `--stage interpret` needs neither compiler
nor GPU, `--stage build` no GPU, and `--stage prepare` neither; it builds what the same run on a GPU then
finds in the cache. `--stage host` needs g++ alone: light kernels run on the CPU, in several orders of
threads, with each access of memory checked, and contractions are stand-ins. What is found is shrunk with
`--reduce SECONDS`. Each outcome is a line of the file `-o`, to which later runs add; the result in
bench/results counts all of its lines, but not of the host. `--replay NUMBERS` tries the one program that the
`choices` of such a line stand for.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.common import at_least_one, cpu_label, write_result
from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.forms import FORMS, ON_HOST
from bench.gpu_fuzz.programs import generate
from bench.gpu_fuzz.reducing import by_crew, reduce
from bench.gpu_fuzz.trying import Outcome, attempt
from bench.gpu_fuzz.varying import vary_strategies
from bench.gpu_fuzz.workers import PATIENCE, PATIENCE_ON_HOST, Crew, Task, try_on
from bench.lines import Lines

FIGURES = {
    "nvcc_rejected": ("rejected",),
    "wrong": ("wrong", "crashed"),
    "false_alarms": ("false_alarm",),
    "refused_calls": ("refused_call",),
    "internal_errors": ("internal",),
    "interpreters_wrong": ("interpreter", "lowered"),
}
"""The figures of findings, by kinds of outcomes."""


def summary(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The figures of a run: programs that the compiler accepted, their runs, refused ones, findings."""
    kinds: Counter[str] = Counter()
    runs = 0
    for row in rows:
        kinds[row["kind"]] += 1
        runs += row["runs"]
    figures: dict[str, float] = {
        "gpu_fuzz.programs": kinds.total() - kinds["refused"],
        "gpu_fuzz.runs": runs,
        "gpu_fuzz.refused": kinds["refused"],
    }
    return figures | {f"gpu_fuzz.{name}": sum(kinds[k] for k in of) for name, of in FIGURES.items()}


class Run:
    """Draws programs, and keeps what came of them."""

    def __init__(self, args: argparse.Namespace, path: Path):
        self._args, self._lines = args, Lines(path)
        self._rows = {row["seed"]: row for row in self._lines.found}
        self._next = args.first
        self._again = [row["seed"] for row in self.rows if is_finding(row)] if args.again else []
        self._accepted = 0
        self.findings: list[Outcome] = []

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The outcomes of this run and of those before it in the file, the last of each program."""
        return list(self._rows.values())

    def task(self) -> Task | None:
        """The next program, until enough were accepted."""
        if self._again:
            return Task(seed=self._again.pop(0))
        if self._accepted >= self._args.programs:
            return None
        while True:
            self._next += 1
            task = Task(seed=f"{self._args.seed}:{self._next - 1}")
            form = generate(task.choices).form
            wanted = self._args.forms or ("|".join(ON_HOST) if self._args.stage == "host" else ".*")
            if re.fullmatch(wanted, form):
                return task

    def take(self, task: Task, outcome: Outcome) -> None:
        """Keep an outcome, and show it if it is a finding."""
        self._accepted += outcome.kind != "refused"
        row = self._rows[task.seed] = outcome.to_json() | {"seed": task.seed}
        self._lines.add(row)
        if outcome.is_finding:
            self.findings.append(outcome)
            show(outcome, task.seed)


def show(outcome: Outcome, label: str) -> None:
    """Print a finding with its program."""
    dims = ",".join(f"{n}={v}" for n, v in outcome.dims.items())
    print(f"==== {label} {outcome.kind} {outcome.code} {outcome.target} {dims}\n{outcome.detail}")
    print(f"{outcome.text}choices {','.join(map(str, outcome.choices))}", flush=True)


def is_finding(row: Mapping[str, Any]) -> bool:
    return Outcome(row["kind"]).is_finding


def recorded(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a result keeps of an outcome: all of a finding, a line of anything else."""
    kept = ("seed", "form", "target", "kind", "code", "runs", "seconds")
    if row["kind"] not in ("good", "refused"):
        kept = (*kept, "text", "choices", "dims", "detail")
    return {name: row[name] for name in kept if row.get(name)}


def some_forms(text: str) -> str:
    """Parse a pattern of forms. Raises ArgumentTypeError for one that is malformed or matches no form."""
    try:
        found = [form for form in FORMS if re.fullmatch(text, form)]
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    if not found:
        raise argparse.ArgumentTypeError(f"no form matches {text!r}; there are {', '.join(FORMS)}")
    return text


def options() -> argparse.ArgumentParser:
    """Declare the options of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu_fuzz",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    kept = os.path.join(tempfile.gettempdir(), "mucc-gpu-fuzz.jsonl")
    parser.add_argument("--programs", type=int, default=300, help="how many are to be accepted")
    parser.add_argument("--seconds", type=float, default=540, help="begin nothing new after so long")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--first", type=int, default=0, help="the first program's number")
    parser.add_argument(
        "--forms", type=some_forms, metavar="REGEX", help="draw programs of these forms alone"
    )
    parser.add_argument("--runs", type=int, default=9, help="calls of a program with open dims")
    parser.add_argument("--stage", choices=("interpret", "build", "prepare", "run", "host"), default="run")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--again", action="store_true", help="try first what the file's findings are")
    parser.add_argument("--vary", action="store_true", help="convolutions by any legal strategy")
    parser.add_argument("--reduce", type=float, default=0, metavar="SECONDS", help="shrink what was found")
    parser.add_argument("--replay", metavar="NUMBERS", help="try the program of these choices")
    parser.add_argument("-o", "--output", default=kept, help=f"file of outcomes (default: {kept})")
    return parser


def replay(args: argparse.Namespace) -> int:
    """Try one program in this process; the status is 1 where it is a finding."""
    choices = Choices(given=[int(n) for n in args.replay.split(",")])
    if args.vary:
        vary_strategies()
    outcome = attempt(choices, args.stage, args.runs)
    show(outcome, "replay")
    return int(outcome.is_finding)


def write(rows: Sequence[Mapping[str, Any]], stage: str) -> Path:
    """Write the result of all outcomes."""
    torch: Any = import_module("torch")
    versions = {"torch": torch.__version__, "cuda": str(torch.version.cuda)}
    card = cpu_label()
    if stage == "run":
        from bench.timing import card as card_of

        card = card_of(torch)
    return write_result(card, "gpu_fuzz", list(map(recorded, rows)), summary(rows), extra_versions=versions)


def main(argv: Sequence[str] | None = None) -> int:
    args = options().parse_args(argv)
    if args.replay:
        return replay(args)
    began = time.monotonic()
    path = Path(args.output)
    patience = PATIENCE_ON_HOST if args.stage == "host" else PATIENCE
    crew = Crew(args.jobs, partial(try_on, args.stage, args.runs, args.vary), patience)
    run = Run(args, path)
    try:
        crew.run(run.task, run.take, began + args.seconds)
        # The shortest ones first: they shrink best.
        until = time.monotonic() + args.reduce
        for finding in sorted(run.findings, key=lambda o: len(o.text)):
            if time.monotonic() < until:
                show(reduce(finding, by_crew(crew, until), args.jobs, until), "reduced")
    finally:
        crew.close()
    figures = summary(run.rows)
    if args.stage == "prepare":
        return int(bool(run.findings))
    if args.stage == "host":
        print(json.dumps(figures, indent=1))
        return int(bool(run.findings))
    print(write(run.rows, args.stage))
    print(json.dumps(figures, indent=1))
    return int(bool(run.findings))


if __name__ == "__main__":
    sys.exit(main())
