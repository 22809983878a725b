"""Tuning on several GPUs of a machine, and on clusters: `python -m bench.farm [--gpus 1,2] [--ray ADDRESS]`.

40 problems, 4 kernels at 10 sizes each, are tuned from an empty database on 1, 2, … GPUs. All candidates are
built into the cache before, so that the times are those of measuring: `wall_s` is that of the whole search
with the start of its processes, `measuring_s` begins with the first measurement. `--stand-in MS` needs no
GPU: its measurements take so many milliseconds of sleep, its libraries are empty, and the scheduling is the
real one. With `--ray`, `--lose` tunes once more on the most GPUs and kills the actor of one of them in the
middle of it: all problems have to be tuned, and all measurements stored once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.common import Row, at_least_one, cpu_label, run_main, write_result
from mucc.build.pool import Pool
from mucc.database.records import Record
from mucc.database.store import Store
from mucc.diagnostics.core import Source
from mucc.measure.tune import local
from mucc.measure.tune.building import Built, Toolset, build_each
from mucc.measure.tune.local import tune
from mucc.measure.tune.plans import Candidate, Kernel, Program, Size
from mucc.measure.tune.search import Limits, Silent
from mucc.measure.tune.where import Where
from mucc.process.processes import descendants

ACTIVATIONS = ("relu", "gelu", "silu", "tanh")

PROGRAM = "\n".join(
    f"""kernel linear_{f}[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {{
    return {f}(x @ w.T + b)
}}"""
    for f in ACTIVATIONS
)

ROWS = (1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2176)
"""M of the sizes; N is 2048 and K 1024, so that a call takes less than 100 µs and cards stay cool."""

SIZES = tuple({"M": m, "N": 2048, "K": 1024} for m in ROWS)

STAND_IN = "bench.farm_stand_in"

LOSE_AT = 100
"""The measurement at which `--lose` kills an actor."""


@dataclass
class Watch(Silent):
    """Notes when the first and the last measurement came; kills an actor at measurement `lose`."""

    lose: int = 0
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    good: int = 0
    lost: int = 0
    start: float = field(default_factory=time.monotonic)

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.count += 1
        self.good += record.is_good
        if self.count == self.lose:
            self.lost = lose_one()


def lose_one() -> int:
    """Kill an actor of Ray that holds a GPU of this machine, and return how many were killed."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if b"ray::Station" not in file.read():
                    continue
            os.kill(pid, signal.SIGKILL)
            return 1
    return 0


def build_all(budget: int) -> int:
    """Build every candidate that a search may try into the cache, and return their number."""
    from mucc.measure.tune.analysis import analyse
    from mucc.measure.tune.choosing import candidate_of, candidates_of, first_choice

    wanted: dict[str, tuple[Kernel, Candidate]] = {}
    for analysis in analyse(program(), "sm_90a", keep_pins=False):
        choice = first_choice(analysis)
        for stage in analysis.stages:
            found = candidates_of(analysis, stage, choice, budget, Limits().factor)
            for candidate in (*found, candidate_of(analysis, stage, choice)):
                wanted[candidate.id] = (analysis.kernel, candidate)
    failed = 0
    with Pool() as pool:
        for built in build_each(pool, list(wanted.values()), Toolset()):
            failed += built.failure is not None
            if built.failure is not None:
                print(f"{built.kernel.name}: {built.failure.reason}", file=sys.stderr)
    return len(wanted) - failed


def program() -> Program:
    return Program(Source("farm.mcu", PROGRAM), SIZES)


def searched(where: Where, budget: int, lose: int = 0) -> dict[str, float | int]:
    """Tune all problems from an empty database; an actor is killed at measurement `lose`."""
    watch = Watch(lose)
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        database = os.path.join(folder, "tuning.db")
        outcomes = tune(program(), limits=Limits(budget), where=where, database=database, watcher=watch)
        ended = time.monotonic()
        stored = len(Store(database).all())
    problems = [result for outcome in outcomes for result in outcome.results]
    return {
        "problems": len(problems),
        "tuned": sum(result.best is not None for result in problems),
        "measurements": watch.count,
        "good": watch.good,
        "stored": stored,
        "lost": watch.lost,
        "wall_s": round(ended - watch.start, 2),
        "measuring_s": round(ended - watch.first, 2),
    }


def stand_in(milliseconds: float) -> tuple[str, ...]:
    """Have libraries that are empty, and return the command of a process that sleeps instead of measuring."""

    def empty(pool: Pool, wanted: Sequence[tuple[Kernel, Candidate]], tools: Toolset) -> Iterator[Built]:
        for kernel, candidate in wanted:
            yield Built(kernel, candidate, candidate.id.encode())

    replaced: Callable[..., Iterator[Built]] = empty
    local.build_each = replaced
    return (sys.executable, "-m", STAND_IN, str(milliseconds))


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--gpus", default="1,2", help="numbers of GPUs to tune on, one after the other")
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="measure through Ray (local: a cluster of this machine)"
    )
    parser.add_argument("--budget", type=int, default=4, help="skeletons for a kernel")
    parser.add_argument(
        "--stand-in", type=float, metavar="MS", help="measurements that sleep; no GPU, no nvcc"
    )
    parser.add_argument("--runs", type=at_least_one, default=1, help="runs on each number of GPUs, in turns")
    parser.add_argument("--lose", action="store_true", help="kill an actor of Ray in a further run")
    parser.add_argument("--build-only", action="store_true", help="fill the cache, measure nothing")
    args = parser.parse_args()
    counts = [int(word) for word in args.gpus.split(",")]
    if args.lose and not args.ray:
        parser.error("--lose kills an actor of Ray: add --ray local")
    command = stand_in(args.stand_in) if args.stand_in is not None else None
    if command is None:
        print(f"{build_all(args.budget)} candidates are built")
        if args.build_only:
            return 0
    rows: list[Row] = []
    if args.ray and command is not None:
        _pretend_gpus(max(counts))
    turns = [(count, False) for _ in range(args.runs) for count in counts]
    for count, loses in [*turns, *([(max(counts), True)] if args.lose else [])]:
        where = (
            Where(ray=args.ray, command=command, most=count)
            if args.ray
            else Where(tuple(range(count)), command=command)
        )
        found = searched(where, args.budget, LOSE_AT if loses else 0)
        row = {"gpus": count, "through": "ray" if args.ray else "processes", **found}
        rows.append(row)
        print(row, flush=True)
        if loses:
            check_loss(found)
    return report(rows, simulated=command is not None)


def check_loss(found: Mapping[str, float | int]) -> None:
    """Raise SystemExit where a lost actor cost a problem or a measurement."""
    whole = found["tuned"] == found["problems"] and found["measurements"] == found["good"] == found["stored"]
    if not (found["lost"] and whole):
        raise SystemExit(f"an actor was lost, and not all was tuned: {found}")


def _pretend_gpus(count: int) -> None:
    """Start a cluster of this machine that has GPUs by name only."""
    import importlib

    ray: Any = importlib.import_module("ray")
    ray.init(num_gpus=count, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def report(rows: list[Row], *, simulated: bool) -> int:
    """Print speedups, of medians over runs, and write the result."""
    summary: dict[str, float] = {}
    whole = [row for row in rows if not row["lost"]]
    for clock in ("measuring_s", "wall_s"):
        times: dict[object, list[float]] = {}
        for row in whole:
            times.setdefault(row["gpus"], []).append(float(str(row[clock])))
        base, *others = [(gpus, median(found)) for gpus, found in times.items()]
        for gpus, seconds in others:
            name = f"farm.{rows[0]['through']}.gpus_{gpus}.{clock.removesuffix('_s')}_speedup"
            summary[name] = round(base[1] / seconds, 3)
    for name, value in summary.items():
        print(f"{name} {value}")
    if simulated:
        card, versions = cpu_label(), {}
    else:
        import importlib

        from bench.timing import card as this_card
        from bench.timing import gpu_versions

        torch: Any = importlib.import_module("torch")
        card, versions = this_card(torch), gpu_versions(torch)
    through = "ray" if rows[0]["through"] == "ray" else "gpus"
    write_result(card, f"farm_{through}", rows, summary, extra_versions=versions, module="farm")
    return 0


if __name__ == "__main__":
    run_main(main)
