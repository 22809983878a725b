"""The bounds of problem files, against times that were measured and against bounds that others computed.

    python -m bench.kernelbench.bounds KernelBench/level1 KernelBench/level2 --measured times.csv

The CSV file has a line for each problem with `level`, `id` and times in ms, empty where there is none:
`default_ms` (PyTorch's defaults), `tf32_ms` (all products in tf32) and `compile_tf32_ms` (torch.compile with
that). No bound may be above a time. `--others` names a JSON file that maps `level1/23` to a bound in ms of
another tool for the same card, with products of f32 in tf32. Nothing is allocated: tensors are fake.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.common import at_least_one, cpu_label, run_main, versions, write_result
from bench.kernelbench.children import Limits, Turn, run_each
from bench.kernelbench.importing import Values, bound_of, request_of
from bench.kernelbench.records import Records
from bench.kernelbench.run import load_torch
from mucc.agent.importing.problems import Problem, find_problems
from mucc.agent.report.figures import geomean
from mucc.build.cache.keys import package_fingerprint
from mucc.diagnostics.core import DiagnosticError
from mucc.files.digest import digest
from mucc.torch.importer.child import serve

TIMES = {"default_ms": "sol_ms", "tf32_ms": "sol_tf32_ms", "compile_tf32_ms": "sol_tf32_ms"}
"""Times, and the bound that holds for each."""

LIMITS = Limits(120.0, 8 << 30, address_space=True)


def bound_problem(problem: Problem, card: str) -> Values:
    """The bound of a problem file at its full sizes. Raises DiagnosticError."""
    request = request_of(problem, problem.path.parent, problem.path.read_text(), whole=True, structure=True)
    answer = serve(request)
    left = sorted({r.operation for r in answer.rows if r.kernel is None})
    return {"unsaid": left, "cpu_seconds": answer.seconds["cpu"]} | bound_of(answer, request.name, card)


def read_times(path: Path) -> dict[str, dict[str, float]]:
    """The times of a CSV file by level and number: `level2/76`. Lines that start with # are comments."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {
        f"level{row['level']}/{int(row['id'])}": {name: float(row[name]) for name in TIMES if row.get(name)}
        for row in csv.DictReader(lines)
    }


def row_of(problem: Problem, values: Values, times: Mapping[str, float], other: float | None) -> Values:
    """A problem's bounds beside its times; `least` is the least time over its bound."""
    row: Values = {"level": problem.group, "problem": problem.name, **values, **times}
    ratios = {
        name: times[name] / values[bound]
        for name, bound in TIMES.items()
        if name in times and values.get(bound)
    }
    if ratios:
        row["least"] = min(ratios.values())
        row["above"] = [name for name, ratio in ratios.items() if ratio < 1]
    if other is not None and values.get("sol_tf32_ms"):
        row |= {"other_ms": other, "over_other": values["sol_tf32_ms"] / other if other else None}
    return row


def figures(rows: Iterable[Values]) -> dict[str, float]:
    """By level: bounds, how many are above a time, the least time over a bound, the geometric mean of it."""
    found: dict[str, float] = {}
    groups: dict[str, list[Values]] = {}
    for row in rows:
        groups.setdefault(row["level"], []).append(row)
    for group, own in groups.items():
        least = [row["least"] for row in own if "least" in row and not row.get("missing")]
        ratios = [row["over_other"] for row in own if row.get("over_other")]
        found |= {
            f"bounds.{group}.problems": len(own),
            f"bounds.{group}.bounded": sum("sol_ms" in row for row in own),
            f"bounds.{group}.above_a_time": sum(bool(row.get("above")) for row in own),
        }
        if least:
            found[f"bounds.{group}.least_time_over_bound"] = round(min(least), 4)
            found[f"bounds.{group}.geomean_time_over_bound"] = round(geomean(least), 4)
        if ratios:
            found[f"bounds.{group}.over_other_geomean"] = round(geomean(ratios), 4)
    return found


def main(argv: list[str] | None = None) -> int:
    """Print a line for each problem and the figures; the status is 1 where a bound is above a time."""
    p = argparse.ArgumentParser(
        prog="python -m bench.kernelbench.bounds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("paths", nargs="+", metavar="FOLDER|FILE")
    p.add_argument("--measured", metavar="CSV", help="times that no bound may be above")
    p.add_argument("--others", metavar="JSON", help="bounds of another tool")
    p.add_argument(
        "-o", "--output", default="build/kernelbench", metavar="WORK", help="folder for finished rows"
    )
    p.add_argument("--only", default="", metavar="REGEX")
    p.add_argument("--card", default="h200")
    p.add_argument("-j", "--jobs", type=at_least_one, default=1)
    p.add_argument("--record", metavar="NAME", help="write bench/results/<machine>/NAME.json")
    args = p.parse_args(argv)
    try:
        problems = find_problems(args.paths, args.only)
    except DiagnosticError as error:
        print(f"bench.kernelbench.bounds: {error}", file=sys.stderr)
        return 1
    times = read_times(Path(args.measured)) if args.measured else {}
    others: dict[str, float] = json.loads(Path(args.others).read_text()) if args.others else {}
    bounds = _bounds(problems, args.card, Path(args.output), args.jobs)
    rows = [row_of(p, bounds[p], times.get(place(p), {}), others.get(place(p))) for p in problems]
    for row in rows:
        print(_line(row))
    found = figures(rows)
    print(json.dumps(found, indent=1))
    if args.record:
        write_result(cpu_label(), args.record, rows, found, extra_versions=versions("torch"))
    return 1 if any(row.get("above") for row in rows) else 0


def place(problem: Problem) -> str:
    """The level and number of a problem: `level2/76`."""
    return f"{problem.group}/{problem.number}"


def _bounds(problems: list[Problem], card: str, folder: Path, jobs: int) -> dict[Problem, Values]:
    records = Records(folder / "bounds.jsonl")
    mucc = package_fingerprint()
    depends = {p: digest(mucc, p.digest(), card) for p in problems}
    waiting = [p for p in problems if records.find(p.key, "bound", depends[p]) is None]
    if waiting:
        load_torch()

    def work(problem: Problem, _: Turn) -> Values:
        return bound_problem(problem, card)

    def log_of(problem: Problem) -> Path:
        return folder / problem.group / problem.name / "bound.log"

    for problem, values in run_each(waiting, work, log_of, LIMITS, jobs):
        records.add(problem.key, "bound", depends[problem], values)
    return {p: records.find(p.key, "bound") or {} for p in problems}


def _line(row: Values) -> str:
    if "error" in row:
        return f"{row['level']}/{row['problem'][:44]:44} {row['error']}"
    cells = [
        f"{row[name]:9.4f}" if name in row else f"{'-':>9}" for name in ("sol_ms", "sol_tf32_ms", *TIMES)
    ]
    least = f"{row['least']:7.2f}" if "least" in row else f"{'-':>7}"
    other = f" other {row['other_ms']:.4f}" if "other_ms" in row else ""
    above = f"  ABOVE {', '.join(row['above'])}" if row.get("above") else ""
    name = f"{row['level']}/{row['problem'][:44]:44}"
    return f"{name} {' '.join(cells)} {least} {row.get('binding', '')}{other}{above}"


if __name__ == "__main__":
    run_main(main)
