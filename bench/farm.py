"""Tuning on several GPUs of a machine, and on clusters: `python -m bench.farm [--gpus 1,2] [--ray ADDRESS]`.

40 problems, 4 kernels at 10 sizes each, are tuned from an empty database on 1, 2, … GPUs. All candidates are
built into the cache before, so that the times are those of measuring: `wall_s` is that of the whole search
with the start of its processes, `measuring_s` begins with the first measurement. `--stand-in MS` needs no
GPU: its measurements take so many milliseconds of sleep, its libraries are empty, and the scheduling is the
real one.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.common import Row, cpu_label, run_main, write_result
from mucc.build.pool import Pool
from mucc.database.records import Record
from mucc.diagnostics.core import Source
from mucc.measure.tune import local
from mucc.measure.tune.building import Built, Toolset, build_each
from mucc.measure.tune.local import tune
from mucc.measure.tune.plans import Candidate, Kernel, Program, Size
from mucc.measure.tune.search import Limits, Silent
from mucc.measure.tune.where import Where

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


@dataclass
class Watch(Silent):
    """Notes when the first and the last measurement came."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    good: int = 0
    start: float = field(default_factory=time.monotonic)

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.count += 1
        self.good += record.is_good


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


def searched(where: Where, budget: int) -> dict[str, float | int]:
    """Tune all problems from an empty database."""
    watch = Watch()
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        database = os.path.join(folder, "tuning.db")
        outcomes = tune(program(), limits=Limits(budget), where=where, database=database, watcher=watch)
        ended = time.monotonic()
    problems = [result for outcome in outcomes for result in outcome.results]
    return {
        "problems": len(problems),
        "tuned": sum(result.best is not None for result in problems),
        "measurements": watch.count,
        "good": watch.good,
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
    parser.add_argument("--build-only", action="store_true", help="fill the cache, measure nothing")
    args = parser.parse_args()
    counts = [int(word) for word in args.gpus.split(",")]
    command = stand_in(args.stand_in) if args.stand_in is not None else None
    if command is None:
        print(f"{build_all(args.budget)} candidates are built")
        if args.build_only:
            return 0
    rows: list[Row] = []
    if args.ray and command is not None:
        _pretend_gpus(max(counts))
    for count in counts:
        where = (
            Where(ray=args.ray, command=command, most=count)
            if args.ray
            else Where(tuple(range(count)), command=command)
        )
        row = {"gpus": count, "through": "ray" if args.ray else "processes", **searched(where, args.budget)}
        rows.append(row)
        print(row, flush=True)
    return report(rows, simulated=command is not None)


def _pretend_gpus(count: int) -> None:
    """Start a cluster of this machine that has GPUs by name only."""
    import importlib

    ray: Any = importlib.import_module("ray")
    ray.init(num_gpus=count, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


def report(rows: list[Row], *, simulated: bool) -> int:
    """Print speedups and write the result."""
    summary: dict[str, float] = {}
    for clock in ("measuring_s", "wall_s"):
        base = float(str(rows[0][clock]))
        for row in rows[1:]:
            name = f"farm.{row['through']}.gpus_{row['gpus']}.{clock.removesuffix('_s')}_speedup"
            summary[name] = round(base / float(str(row[clock])), 3)
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
    write_result(card, f"farm_{through}", rows, summary, extra_versions=versions)
    return 0


if __name__ == "__main__":
    run_main(main)
