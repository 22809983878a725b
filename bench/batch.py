"""Run many benchmarks within one time limit: builds beside each other, measurements in turns on each GPU.

    python -m bench.batch PLAN.toml -o DIR [--minutes M] [--builds N] [--shares N] [--gpus 0,1] [--only A,B]

A rented GPU is paid by the minute, and most of a benchmark's time is compilation. So a plan names, for each
job, a shell command that needs no GPU (`build`) and one that does (`measure`):

    [[job]]
    name = "layers"
    build = "python -m bench.layers --build-only"
    measure = "python -m bench.layers --measure-only"
    seconds = 300       # the limit of `measure`; one that no longer fits into the time left does not start
    build_seconds = 600 # the limit of `build`
    shares = false      # true: checks and no times, so up to --shares of these use one GPU at a time

The order of jobs is their priority. Commands run in the repository, with CUDA_VISIBLE_DEVICES set to one GPU
and OUT to a folder for what they write. DIR has `NAME.build.log`, `NAME.measure.log`, the folders OUT, and
`batch.json`, from which the next run with the same DIR goes on: jobs that are done do not run again. One run
at a time works in a DIR; another one ends at once. The exit status is 1 if a job failed or was not run.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.common import ROOT, at_least_one, run_main
from mucc.files.atomic import replace_file
from mucc.process import interrupts, reaper
from mucc.process.tree import End, Family

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

DONE, FAILED, LATE, LEFT = "done", "failed", "over its limit", "not run"


class Job(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A benchmark: shell commands for building and measuring, and their limits in seconds."""

    name: str
    measure: str
    build: str = ""
    seconds: float = 300
    build_seconds: float = 600
    shares: bool = False

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"the name {self.name!r} is no name of a file (letters, digits, `.`, `_`, `-`)")
        if min(self.seconds, self.build_seconds) <= 0:
            raise ValueError(f"limits of {self.name} have to be above 0 seconds")


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    job: list[Job]


class Outcome(msgspec.Struct):
    """The state of a job, and the seconds that its commands took; None for a command that did not run."""

    name: str
    state: str = LEFT
    build_s: float | None = None
    measure_s: float | None = None
    gpu: str = ""


def read_plan(path: Path) -> list[Job]:
    """Read the jobs of a plan. Raises SystemExit for a file that is no plan, OSError if it is not there."""
    try:
        jobs = msgspec.toml.decode(path.read_bytes(), type=Plan).job
    except (msgspec.DecodeError, ValueError) as error:
        raise SystemExit(f"{path}: {error}") from None
    names = [job.name for job in jobs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SystemExit(f"{path}: several jobs are named {', '.join(twice)}")
    return jobs


class Slots:
    """Named places that threads take in the order of their priorities, the least number first."""

    def __init__(self, places: Sequence[str]):
        self._free = list(places)
        self._waiting: list[tuple[int, int]] = []  # priority, places wanted
        self._change = threading.Condition()

    @contextmanager
    def take(self, priority: int, whole: int = 1) -> Generator[str]:
        """Take `whole` places of one name; waits until they are free and no thread of less number waits."""
        mine = (priority, whole)
        with self._change:
            self._waiting.append(mine)
            self._change.wait_for(lambda: min(self._waiting) == mine and self._with(whole))
            self._waiting.remove(mine)
            place = self._with(whole)
            for _ in range(whole):
                self._free.remove(place)
            self._change.notify_all()
        try:
            yield place
        finally:
            with self._change:
                self._free += [place] * whole
                self._change.notify_all()

    def _with(self, whole: int) -> str:
        """Return a name with that many free places; empty if there is none."""
        return next((place for place in self._free if self._free.count(place) >= whole), "")


class Batch:
    """The jobs of a plan, their outcomes, and the time when no command may run any more."""

    def __init__(self, folder: Path, options: argparse.Namespace):
        self.folder = folder
        self.until = time.monotonic() + 60 * options.minutes
        self.stop = threading.Event()
        self.builds = Slots(["builds"] * options.builds)
        self.gpus = Slots([gpu for gpu in options.gpus.split(",") for _ in range(options.shares)])
        self.shares: int = options.shares
        self.record = folder / "batch.json"
        self.outcomes: dict[str, Outcome] = {}
        self._lock = threading.Lock()

    @contextmanager
    def alone(self) -> Generator[None]:
        """Hold the lock of the folder, whose record one run writes. Raises SystemExit if another has it."""
        descriptor = os.open(self.folder / "batch.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                why = f"another run works in {self.folder}: wait for it, or name another folder"
                raise SystemExit(why) from None
            self.outcomes = self._recorded()
            yield
        finally:
            os.close(descriptor)

    def _recorded(self) -> dict[str, Outcome]:
        try:
            rows = msgspec.json.decode(self.record.read_bytes(), type=list[Outcome])
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise SystemExit(f"{self.record}: {error}") from None
        return {row.name: row for row in rows}

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run the jobs that are not done; returns their outcomes in the order of the plan.

        Raises SystemExit while another run works in the folder.
        """
        with self.alone():
            return self._run(jobs)

    def _run(self, jobs: Sequence[Job]) -> list[Outcome]:
        missing = [
            job for job in jobs if job.name not in self.outcomes or self.outcomes[job.name].state != DONE
        ]
        self.outcomes |= {job.name: Outcome(job.name) for job in missing}
        self._save()  # a process that is killed keeps a record of all jobs
        with ThreadPoolExecutor(max(len(missing), 1)) as pool:
            try:
                for task in [pool.submit(self._job, n, job) for n, job in enumerate(missing)]:
                    task.result()
            except BaseException:
                self.stop.set()
                raise
        return [self.outcomes[job.name] for job in jobs]

    def _job(self, priority: int, job: Job) -> None:
        outcome = Outcome(job.name)
        try:
            if job.build:
                with self.builds.take(priority):
                    outcome.state, outcome.build_s = self._command(job, "build", job.build_seconds, "")
                if outcome.state != DONE:
                    return
            with self.gpus.take(priority, 1 if job.shares else self.shares) as gpu:
                outcome.state, outcome.measure_s = self._command(job, "measure", job.seconds, gpu)
                outcome.gpu = gpu if outcome.measure_s is not None else ""
        finally:
            self._keep(outcome)

    def _command(self, job: Job, part: str, seconds: float, gpu: str) -> tuple[str, float | None]:
        """Run a command of a job; returns the job's state and the seconds that the command took."""
        left = self.until - time.monotonic()
        if self.stop.is_set() or left < (seconds if part == "measure" else 1):
            return LEFT, None
        out = self.folder / job.name
        out.mkdir(exist_ok=True)
        started = time.monotonic()
        with (self.folder / f"{job.name}.{part}.log").open("wb") as log:
            process = subprocess.Popen(
                ["/bin/bash", "-c", getattr(job, part)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu, "OUT": str(out)},
                start_new_session=True,
            )
            family = Family(process.pid)
            reaper.watch(process.pid)
            try:
                end = family.wait(min(seconds, left), (self.stop,))
            finally:
                process.returncode, _ = family.end()
        took = round(time.monotonic() - started, 1)
        if end is End.OVERDUE:
            return LATE, took
        if end is End.CALLED_OFF or (interrupts.is_ending() and process.returncode):
            return LEFT, took
        return (FAILED if process.returncode else DONE), took

    def _keep(self, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes[outcome.name] = outcome
            self._save()
            print(line_of(outcome, self.folder), flush=True)

    def _save(self) -> None:
        rows: list[dict[str, Any]] = [msgspec.to_builtins(row) for row in self.outcomes.values()]
        replace_file(str(self.record), f"{json.dumps(rows, indent=1)}\n".encode())


def line_of(outcome: Outcome, folder: Path) -> str:
    """Format an outcome: state and times, and the log of a command that failed or took too long."""
    times = [
        f"{part} {seconds:.0f} s"
        for part, seconds in (("build", outcome.build_s), ("measure", outcome.measure_s))
        if seconds is not None
    ]
    part = "build" if outcome.measure_s is None else "measure"
    log = f"  {folder / outcome.name}.{part}.log" if outcome.state in (FAILED, LATE) else ""
    return f"{outcome.name:24} {outcome.state:14} {', '.join(times)}{log}".rstrip()


def visible_gpus() -> str:
    """Return the numbers of all GPUs, of CUDA_VISIBLE_DEVICES if that is set."""
    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return named
    try:
        printed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        printed = ""
    if not (found := re.findall(r"^GPU (\d+):", printed, re.MULTILINE)):
        raise SystemExit("there is no GPU that nvidia-smi lists: name GPUs by --gpus")
    return ",".join(found)


def minutes(text: str) -> float:
    """Parse a number of minutes. Raises ValueError, or ArgumentTypeError for a number that is not above 0."""
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"needs a number above 0: {text!r}")
    return number


def gpu_list(text: str) -> str:
    """Parse names of GPUs, with commas. Raises ArgumentTypeError for an empty or a repeated one."""
    names = text.split(",")
    if not all(names) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"write each GPU once, as in 0,1: {text!r}")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.batch", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("plan", type=Path, help="jobs, in the order of their priority")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="DIR", help="logs and the record")
    parser.add_argument("--minutes", type=minutes, default=60, help="the time for all (default 60)")
    parser.add_argument("--builds", type=at_least_one, default=4, help="builds at a time (default 4)")
    parser.add_argument("--shares", type=at_least_one, default=3, help="jobs that share a GPU (default 3)")
    parser.add_argument(
        "--gpus", type=gpu_list, metavar="0,1", help="GPUs by number (default: all that are visible)"
    )
    parser.add_argument("--only", metavar="A,B", help="names of jobs to run (default: all)")
    options = parser.parse_args()
    jobs = read_plan(options.plan)
    if options.only is not None:
        only: list[str] = options.only.split(",")
        if unknown := sorted(set(only) - {job.name for job in jobs}):
            raise SystemExit(f"{options.plan} has no job {', '.join(unknown)}")
        jobs = [job for job in jobs if job.name in only]
    options.gpus = options.gpus or visible_gpus()
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes = Batch(options.out.resolve(), options).run(jobs)
    return int(any(outcome.state != DONE for outcome in outcomes))


if __name__ == "__main__":
    run_main(main)
