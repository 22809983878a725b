"""Ten kernels against PyTorch, Inductor, Triton, Helion and CuTe DSL: `python -m bench.rivals [--gpus 0,1]`.

Each kernel is a run of `mucc bench --against` in a process of its own: all contenders are checked against
the float64 interpreter on the same inputs, and those that are right are timed in turns from a cold L2. Every
contender is tuned before by its own tuner: mucc by `mucc tune` (--tune), Inductor by max-autotune, Triton by
its configurations, Helion by its search and CuTe DSL by that of quack, of which --helion-seconds and
--quack-seconds are the budgets.
A contender that is not installed, fails, or computes something else has its reason in the row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from bench.common import ROOT, Row, at_least_one, run_main, versions, write_result
from bench.rivals import AGAINST, CASES, Case
from bench.timing import card, gpu_versions
from mucc.files.atomic import replace_file

PROGRAMS = ROOT / "examples" / "against"

RIVALS = ("helion", "nvidia-cutlass-dsl", "quack-kernels", "flash-attn-4")
"""Distributions of which runs may have different versions; a row that has others names them."""

DISTRIBUTIONS = ("torch", "triton", *RIVALS)


def words_of(case: Case) -> list[str]:
    return [",".join(f"{name}={value}" for name, value in case.dims.items())]


def run(case: Case, options: argparse.Namespace, gpu: str) -> Row:
    """Tune and time a kernel on a GPU; the row has every contender's time in µs, or why it has none."""
    program = str(PROGRAMS / f"{case.name}.mcu")
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": gpu,
        "HELION_AUTOTUNE_EFFORT": options.helion_effort,
        "HELION_AUTOTUNE_BUDGET_SECONDS": str(options.helion_seconds),
        "HELION_PRINT_OUTPUT_CODE": "0",
    }
    if options.quack_seconds:
        environment["QUACK_BUDGET_SECONDS"] = str(options.quack_seconds)
    row: dict[str, object] = {"name": case.name, "dims": case.dims}
    if options.tune:
        tune = ["tune", program, "--dims", *words_of(case), "--budget", str(options.budget), "--json"]
        done = _mucc(tune, environment, options.timeout)
        if done.returncode:
            row["tune"] = _last(done.stderr)
    command = ["bench", program, "--dims", *words_of(case), "--against", options.against, "--json"]
    if options.first_call:
        command += ["--first-call", str(options.first_call)]
    if options.plots is not None:
        command += ["--plot", str(Path(options.plots, f"{case.name}.svg"))]
    done = _mucc(command, environment, options.timeout)
    try:
        row["results"] = json.loads(done.stdout)["results"]
    except (ValueError, KeyError):
        row["problem"] = f"exit status {done.returncode}: {_last(done.stderr)}"
        row["results"] = []
    return row


def _mucc(
    words: Sequence[str], environment: dict[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mucc", *words]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not done after {seconds:g} s")


def _last(text: str) -> str:
    """Return the last line of a process's stderr that tells an error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("error[")] or lines
    return told[-1][:300] if told else ""


def run_all(cases: Sequence[Case], options: argparse.Namespace) -> Iterator[Row]:
    """Yield the row of each case as it comes; every GPU has one case at a time."""
    free: SimpleQueue[str] = SimpleQueue()
    gpus = options.gpus.split(",")
    for gpu in gpus:
        free.put(gpu)

    def on_one(case: Case) -> Row:
        gpu = free.get()
        try:
            return run(case, options, gpu)
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(len(gpus)) as pool:
        for future in as_completed([pool.submit(on_one, case) for case in cases]):
            yield future.result()


def times(row: Row) -> dict[str, float]:
    """The microseconds of those contenders that have some."""
    found: Any = row["results"]
    return {r["name"]: r["time_us"] for r in found if r["time_us"]}


def summarise(rows: Sequence[Row]) -> dict[str, float]:
    """`rivals.NAME.mucc_speedup`, the geometric mean over the kernels of both, the least, their number."""
    summary: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    for row in rows:
        found = times(row)
        ours = found.pop("mucc", None)
        if ours is None:
            continue
        for name, time in found.items():
            ratios.setdefault(name, []).append(time / ours)
        if found:
            ratios.setdefault("best", []).append(min(found.values()) / ours)
    for name, all_of in sorted(ratios.items()):
        summary[f"rivals.{name}.mucc_speedup"] = round(math.exp(sum(map(math.log, all_of)) / len(all_of)), 3)
        summary[f"rivals.{name}.least"] = round(min(all_of), 3)
        summary[f"rivals.{name}.kernels"] = len(all_of)
    return summary


def merged(paths: Sequence[str]) -> Path:
    """Write the result of kernels that several runs, or earlier results, measured on one card.

    Of two rows of a kernel the later counts. A row has all of its contenders from one run. Where rivals
    had other versions than in the first run, it names them. Raises ValueError where runs differ in card
    or in versions of anything else.
    """
    runs: list[dict[str, Any]] = [json.loads(Path(path).read_text()) for path in paths]
    common = runs[0]["versions"]
    measured: dict[str, Row] = {}
    for run in runs:
        others = {name: version for name, version in run["versions"].items() if common.get(name) != version}
        missing = common.keys() - run["versions"].keys() - {*RIVALS}
        if run["card"] != runs[0]["card"]:
            raise ValueError(f"runs differ in their card: {', '.join(paths)}")
        if wrong := sorted(missing | (others.keys() - {*RIVALS})):
            raise ValueError(f"runs differ in their versions of {', '.join(wrong)}: {', '.join(paths)}")
        for row in run["rows"]:
            measured[row["name"]] = {**row, "versions": others} if others else row
    rows = [measured[case.name] for case in CASES if case.name in measured]
    print("\n".join(map(line, rows)))
    path = write_result(runs[0]["card"], "rivals", rows, summarise(rows))
    of_runs = {
        "versions": common,
        "commands": [c for run in runs for c in run.get("commands", [run["command"]])],
    }
    made = json.loads(path.read_text()) | of_runs | {"date": runs[-1]["date"], "commit": runs[-1]["commit"]}
    replace_file(str(path), (json.dumps(made, indent=1) + "\n").encode())
    return path


def line(row: Row) -> str:
    """A row as a line: µs of each contender."""
    found = "  ".join(f"{name} {time:.1f}" for name, time in times(row).items())
    results: Any = row["results"]
    missing = ", ".join(r["name"] for r in results if not r["time_us"])
    problem = row.get("problem") or (f"(no time: {missing})" if missing else "")
    return f"{row['name']:<16} {found}  {problem}"


def main() -> int:
    """Measure, print, and write the result after each kernel."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--only", default="", metavar="NAME,…", help="kernels (default: all)")
    parser.add_argument("--against", default=",".join(AGAINST), help="contenders")
    parser.add_argument(
        "--gpus", default=os.environ.get("CUDA_VISIBLE_DEVICES") or "0", help="GPUs by number"
    )
    parser.add_argument("--tune", action="store_true", help="tune mucc's schedules first")
    parser.add_argument("--budget", type=at_least_one, default=8, help="skeletons of mucc's search")
    parser.add_argument("--helion-effort", default="full", choices=("none", "quick", "full"))
    parser.add_argument(
        "--helion-seconds", type=at_least_one, default=120, help="budget of Helion's search for a kernel"
    )
    parser.add_argument(
        "--quack-seconds",
        type=at_least_one,
        help="budget of quack's search for a product (default: all of it)",
    )
    parser.add_argument(
        "--first-call", type=at_least_one, help="seconds a contender may compile and tune itself"
    )
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a kernel")
    parser.add_argument(
        "--merge", nargs="+", metavar="JSON", help="measure nothing, and write the result of several runs"
    )
    parser.add_argument("--plots", metavar="FOLDER", help="draw the times of each kernel as NAME.svg")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else [case.name for case in CASES]
    if unknown := sorted(set(wanted) - {case.name for case in CASES}):
        parser.error(f"there is no kernel {', '.join(unknown)}, there are {', '.join(c.name for c in CASES)}")
    if options.merge:
        print(merged(options.merge))
        return 0
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        parser.exit(1, f"{parser.prog}: there is no GPU\n")
    found = {**gpu_versions(torch), **versions(*DISTRIBUTIONS)}
    label = card(torch)
    rows: list[Row] = []
    for row in run_all([case for case in CASES if case.name in wanted], options):
        rows.append(row)
        print(line(row), flush=True)
        write_result(label, "rivals", rows, summarise(rows), extra_versions=found)
    for name, value in summarise(rows).items():
        print(f"{name} {value}")
    return 0


if __name__ == "__main__":
    run_main(main)
