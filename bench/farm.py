"""Tuning on several GPUs of a machine, and on clusters: `python -m bench.farm [--gpus 1,2] [--ray ADDRESS]`.

40 problems, 4 kernels at 10 sizes each unless --kernels says otherwise, are tuned from an empty database on
1, 2, … GPUs. All candidates are built into the cache before, so that the times are those of measuring:
`wall_s` is that of the whole search with the start of its processes, `measuring_s` begins with the first
measurement. `--stand-in MS` needs no GPU: its measurements take so many milliseconds of sleep, its
libraries are empty, and the scheduling is the real one. With `--ray`, `--lose` tunes once more on the most
GPUs for each kind of loss: `actor` kills the actor of a GPU in the middle, `driver` kills the command and
starts it again, `store` fills the object store before. All problems have to be tuned, and all measurements
stored once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.common import ROOT, Row, at_least_one, cpu_label, run_main, write_result
from mucc.build.cluster.connection import disconnect, imported
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

PROBLEMS = 40
"""Kernels by sizes. M is 1024, 1152, …, N 2048 and K 1024: calls are short, and cards stay cool."""

STAND_IN = "bench.farm_stand_in"

LIBRARY_BYTES = 1 << 20
"""The size of a library of `--stand-in`, about that of one with a CUTLASS kernel."""

LOSE_AT = 100
"""The measurement at which `--lose` kills an actor or the command."""

LOSSES = ("actor", "driver", "store")
"""What `--lose` may lose: see the docstring of this file."""

MARK = "MUCC_FARM_RUN"
"""The environment variable by which the processes of a command that is killed are found."""

STORE_BYTES = 80 << 20
"""The object store that `--lose store` fills, the smallest that Ray starts."""

BLOCK_BYTES = 1 << 20

ENDING_S = 60.0
"""Seconds that the processes of a killed command get to end."""

AGENTS = (b"ray::DashboardAgent", b"ray::RuntimeEnvAgent")
"""Processes of Ray that end a minute after their cluster; they hold no GPU."""


@dataclass
class Watch(Silent):
    """Notes when the first and the last measurement came; runs `loss` at measurement `lose`."""

    lose: int = 0
    loss: Callable[[], int] = lambda: 0
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    good: int = 0
    known: int = 0
    lost: int = 0
    start: float = field(default_factory=time.monotonic)

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        self.last = time.monotonic()
        self.first = self.first or self.last
        self.count += 1
        self.good += record.is_good
        self.known += known
        if self.count == self.lose:
            self.lost = self.loss()


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


def lose_driver() -> int:
    """Kill this process, as SIGKILL from outside would."""
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


def killed_driver(words: Sequence[str], database: str) -> float:
    """Tune in a process that kills itself, and wait until all that it started has ended.

    `words` are the options of that command. Returns the seconds that its processes lived on. Raises
    SystemExit where the command ended otherwise, or a process of it lives on for `ENDING_S`.
    """
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "bench.farm", *words, "--until-killed", database]
    done = subprocess.run(command, env={**os.environ, MARK: mark}, cwd=ROOT, check=False)
    if done.returncode != -signal.SIGKILL:
        raise SystemExit(f"the command was to be killed, and ended with status {done.returncode}")
    ended = time.monotonic()
    while left := marked(mark):
        if time.monotonic() - ended > ENDING_S:
            raise SystemExit(f"{len(left)} processes of a killed command live on: {left}")
        time.sleep(0.05)
    return round(time.monotonic() - ended, 2)


def marked(mark: str) -> list[int]:
    """Return the numbers of the living processes with `mark` in the variable `MARK`, except Ray's agents."""
    wanted = f"{MARK}={mark}".encode()
    found: list[int] = []
    for name in os.listdir("/proc"):
        process = Path("/proc", name)
        with contextlib.suppress(OSError):
            if not name.isdecimal() or wanted not in (process / "environ").read_bytes().split(b"\0"):
                continue
            if not (process / "cmdline").read_bytes().startswith(AGENTS):
                found.append(int(name))
    return found


def fill_store(ray: Any) -> list[Any]:
    """Put objects into the store of this machine until it takes no more, and return their references."""
    held: list[Any] = []
    with contextlib.suppress(ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError):
        while len(held) * BLOCK_BYTES < 2 * STORE_BYTES:
            held.append(ray.put(os.urandom(BLOCK_BYTES)))
    return held


def build_all(budget: int, kernels: int) -> int:
    """Build every candidate that a search may try into the cache, and return their number."""
    from mucc.measure.tune.analysis import analyse
    from mucc.measure.tune.choosing import candidate_of, candidates_of, first_choice

    wanted: dict[str, tuple[Kernel, Candidate]] = {}
    for analysis in analyse(program(kernels), "sm_90a", keep_pins=False):
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


def program(kernels: int) -> Program:
    """Return a program of `kernels` kernels, with sizes such that there are `PROBLEMS` problems in all."""
    text = "\n".join(
        f"""kernel linear_{f}[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {{
    return {f}(x @ w.T + b)
}}"""
        for f in ACTIVATIONS[:kernels]
    )
    sizes = tuple({"M": 1024 + 128 * i, "N": 2048, "K": 1024} for i in range(PROBLEMS // kernels))
    return Program(Source("farm.mcu", text), sizes)


def searched(
    where: Where,
    args: argparse.Namespace,
    watch: Watch | None = None,
    database: str | None = None,
) -> dict[str, float | int]:
    """Tune all problems, from an empty database if none is given."""
    watch = watch or Watch()
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        database = database or os.path.join(folder, "tuning.db")
        limits = Limits(args.budget)
        outcomes = tune(program(args.kernels), limits=limits, where=where, database=database, watcher=watch)
        ended = time.monotonic()
        stored = len(Store(database).all())
    problems = [result for outcome in outcomes for result in outcome.results]
    return {
        "problems": len(problems),
        "tuned": sum(result.best is not None for result in problems),
        "measurements": watch.count,
        "good": watch.good,
        "known": watch.known,
        "stored": stored,
        "lost": watch.lost,
        "wall_s": round(ended - watch.start, 2),
        "measuring_s": round(ended - watch.first, 2),
    }


def stand_in(milliseconds: float) -> tuple[str, ...]:
    """Have libraries that are empty, and return the command of a process that sleeps instead of measuring."""

    def empty(pool: Pool, wanted: Sequence[tuple[Kernel, Candidate]], tools: Toolset) -> Iterator[Built]:
        for kernel, candidate in wanted:
            yield Built(kernel, candidate, candidate.id.encode().ljust(LIBRARY_BYTES, b"\0"))

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
        "--kernels",
        type=int,
        default=4,
        choices=(1, 2, 4),
        help="kernels that share the 40 problems; fewer are built sooner",
    )
    parser.add_argument(
        "--stand-in", type=float, metavar="MS", help="measurements that sleep; no GPU, no nvcc"
    )
    parser.add_argument("--runs", type=at_least_one, default=1, help="runs on each number of GPUs, in turns")
    parser.add_argument(
        "--lose",
        nargs="?",
        const="actor",
        default="",
        metavar="WHAT,…",
        help="further runs with Ray: " + ", ".join(LOSSES),
    )
    parser.add_argument("--build-only", action="store_true", help="fill the cache, measure nothing")
    parser.add_argument("--losses-only", action="store_true", help="the runs of --lose alone")
    parser.add_argument("--until-killed", metavar="DATABASE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    counts = [int(word) for word in args.gpus.split(",")]
    losses: list[str] = args.lose.split(",") if args.lose else []
    if unknown := sorted(set(losses) - set(LOSSES)):
        parser.error(f"--lose {unknown[0]}: it loses {', '.join(LOSSES)}")
    if losses and not args.ray:
        parser.error("--lose kills what Ray started: add --ray local")
    command = stand_in(args.stand_in) if args.stand_in is not None else None
    if args.until_killed:
        return until_killed(args, max(counts), command)
    if command is None:
        print(f"{build_all(args.budget, args.kernels)} candidates are built", flush=True)
        if args.build_only:
            return 0
    rows: list[Row] = []
    if args.ray and command is not None:
        start_ray(max(counts))
    turns = [] if args.losses_only else [count for _ in range(args.runs) for count in counts]
    for count in turns:
        add(rows, count, args.ray, searched(place(args.ray, count, command), args))
    for what in losses:
        found = lose(what, args, max(counts), command)
        add(rows, max(counts), args.ray, {**found, "loses": what})
        report(rows, simulated=command is not None)
        check_loss(what, found)
    return report(rows, simulated=command is not None)


def place(ray: str | None, count: int, command: tuple[str, ...] | None) -> Where:
    """Return `count` GPUs of a cluster, or of this machine."""
    if ray:
        return Where(ray=ray, command=command, most=count)
    return Where(tuple(range(count)), command=command)


def add(rows: list[Row], count: int, ray: str | None, found: Mapping[str, object]) -> None:
    row = {"gpus": count, "through": "ray" if ray else "processes", **found}
    rows.append(row)
    print(row, flush=True)


def until_killed(args: argparse.Namespace, count: int, command: tuple[str, ...] | None) -> int:
    """Tune until measurement `LOSE_AT`, at which this process kills itself."""
    if command is not None:
        start_ray(count)
    watch = Watch(LOSE_AT, lose_driver)
    searched(place(args.ray, count, command), args, watch, args.until_killed)
    return 1


def lose(
    what: str, args: argparse.Namespace, count: int, command: tuple[str, ...] | None
) -> dict[str, float | int]:
    """Tune all problems on `count` GPUs while something of `LOSSES` is lost."""
    where = place(args.ray, count, command)
    if what == "actor":
        return searched(where, args, Watch(LOSE_AT, lose_one))
    disconnect()
    if what == "driver":
        words = ["--gpus", str(count), "--ray", args.ray]
        words += ["--budget", str(args.budget), "--kernels", str(args.kernels)]
        if args.stand_in is not None:
            words += ["--stand-in", str(args.stand_in)]
        with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
            database = os.path.join(folder, "tuning.db")
            ending = killed_driver(words, database)
            kept = len(Store(database).all())
            if command is not None:
                start_ray(count)
            found = searched(where, args, database=database)
        return {**found, "lost": 1, "kept": kept, "ending_s": ending}
    start_ray(count if command is not None else None, STORE_BYTES)
    held = fill_store(imported())
    return {**searched(where, args), "lost": 1, "blocks": len(held)}


def check_loss(what: str, found: Mapping[str, float | int]) -> None:
    """Raise SystemExit where a loss cost a problem or a measurement, or one that was stored was repeated."""
    whole = found["tuned"] == found["problems"] and found["measurements"] == found["good"] == found["stored"]
    if not (found["lost"] and whole and found["known"] == found.get("kept", 0)):
        raise SystemExit(f"--lose {what}: not all was tuned, or a measurement was lost: {found}")


def start_ray(gpus: int | None, store_bytes: int | None = None) -> None:
    """Start a cluster of this machine, with GPUs by name only if `gpus` is given.

    An object store of `store_bytes` has no room on the disk beside it.
    """
    disconnect()
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    if store_bytes is None:
        imported().init(num_gpus=gpus, **quiet)
        return
    no_disk = {"automatic_object_spilling_enabled": False, "local_fs_capacity_threshold": 0.0}
    imported().init(num_gpus=gpus, object_store_memory=store_bytes, _system_config=no_disk, **quiet)


def report(rows: list[Row], *, simulated: bool) -> int:
    """Print speedups, of medians over runs, and write the result."""
    summary: dict[str, float] = {}
    whole = [row for row in rows if not row["lost"]]
    for clock in ("measuring_s", "wall_s"):
        times: dict[object, list[float]] = {}
        for row in whole:
            times.setdefault(row["gpus"], []).append(float(str(row[clock])))
        medians = [(gpus, median(found)) for gpus, found in times.items()]
        for gpus, seconds in medians[1:]:
            name = f"farm.{rows[0]['through']}.gpus_{gpus}.{clock.removesuffix('_s')}_speedup"
            summary[name] = round(medians[0][1] / seconds, 3)
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
