"""What a farm of compilers and GPUs does with many problems: `python -m bench.scale [--problems N]`.

A discrete simulation. The process that gives the work (the owner) is simulated with costs that are measured
here before: compiling a candidate's program, giving a task to Ray, storing a record. Times of compilers and
GPUs are those of other benchmarks, see `TIMES`. Prices are assumptions.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from bench.common import RESULTS, at_least_one, cpu_label, run_main, write_result

Way = Literal["jobs", "programs", "batches"]
"""What a task is: a job of a build, as it is now, or the whole build of a candidate, with its passes.
With `batches` measurements are stored BATCH at a time besides."""

BATCH = 50


@dataclass(frozen=True)
class Times:
    """Seconds of each step. Those of the owner are replaced by what is measured."""

    device: float = 13.0
    """nvcc on a skeleton (docs/building.md) …"""
    host: float = 7.0
    """… and g++ on its host code: together the 16 to 17 s of `compile.skeleton_s` on two cores."""
    steps: float = 0.8
    """g++ on the program's host code, ptxas, the linker: jobs of every candidate, one after another."""
    jobs: int = 4
    """Jobs of a candidate whose skeleton is known."""
    prepare: float = 0.12
    """Inputs and reference of a problem on a GPU …"""
    sweep: float = 0.03
    """… checking and timing a candidate, and …"""
    final: float = 0.05
    """… the last round: together the 0.40 s a problem with 8 candidates of `bench.farm` on an H100."""
    compile: float = 0.15
    """Owner: passes and emission of a candidate."""
    nvrtc: float = 0.03
    """NVRTC on its pointwise work, in the owner's second process."""
    task: float = 0.002
    """Owner: giving a task and taking its result."""
    record: float = 0.002
    """Owner: storing a measurement."""


TIMES = Times()

CORE_HOUR, GPU_HOUR = 0.04, 3.0
"""US dollars, assumed: a core with 4 GB, and a Hopper GPU with its share of a host."""

Step: TypeAlias = "tuple[Resource, float] | Gate"
"""What a simulated process waits for: a server for so many seconds, or a gate."""

Process: TypeAlias = Generator[Step, None, None]


@dataclass(eq=False)
class Resource:
    """Servers of one kind with a queue."""

    name: str
    count: int
    busy: int = 0
    used: float = 0.0
    queue: deque[tuple[float, Process]] = field(default_factory=lambda: deque[tuple[float, Process]]())


@dataclass(eq=False)
class Gate:
    """An event that is set once; processes that come before it wait."""

    is_open: bool = False
    waiting: list[Process] = field(default_factory=list[Process])


class Simulation:
    """Runs processes, which are generators of steps, in simulated seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def start(self, process: Process) -> None:
        """Begin a process now."""
        self._at(0.0, lambda: self._go_on(process))

    def open(self, gate: Gate) -> None:
        """Open a gate, and let all go on that wait for it."""
        gate.is_open = True
        for process in gate.waiting:
            self.start(process)
        gate.waiting.clear()

    def run(self) -> float:
        """Simulate to the end; returns the seconds."""
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()
        return self.now

    def _at(self, delay: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + delay, self._number, event))

    def _go_on(self, process: Process) -> None:
        step = next(process, None)
        if step is None:
            return
        if isinstance(step, Gate):
            if step.is_open:
                self.start(process)
            else:
                step.waiting.append(process)
            return
        resource, seconds = step
        if resource.busy < resource.count:
            self._serve(resource, seconds, process)
        else:
            resource.queue.append((seconds, process))

    def _serve(self, resource: Resource, seconds: float, process: Process) -> None:
        resource.busy += 1
        resource.used += seconds

        def done() -> None:
            resource.busy -= 1
            if resource.queue:
                self._serve(resource, *resource.queue.popleft())
            self._go_on(process)

        self._at(seconds, done)


@dataclass(frozen=True)
class Farm:
    """What is simulated: so many problems with candidates each, on workers and GPUs."""

    problems: int
    candidates: int
    skeletons: int
    workers: int
    gpus: int
    way: Way
    times: Times = TIMES
    seed: int = 0


def simulated(farm: Farm) -> dict[str, float | int | str]:
    """Simulate a farm: the hours that it takes, how busy each part is, and what a tuned kernel costs."""
    sim, times, rng = Simulation(), farm.times, random.Random(farm.seed)
    owner, nvrtc = Resource("owner", 1), Resource("nvrtc", 1)
    workers, gpus = Resource("workers", farm.workers), Resource("gpus", farm.gpus)
    built: dict[int, Gate] = {}
    record = times.record / (BATCH if farm.way == "batches" else 1)

    def around(seconds: float) -> float:
        return seconds * rng.uniform(0.8, 1.25)

    def skeleton(number: int) -> Process:
        yield owner, 2 * times.task
        yield workers, around(times.device + times.host)
        sim.open(built[number])

    def candidate(number: int, ended: Callable[[], None]) -> Process:
        if farm.way == "jobs":
            yield owner, around(times.compile)
            yield nvrtc, around(times.nvrtc)
        if number not in built:
            built[number] = Gate()
            sim.start(skeleton(number))
        yield built[number]
        if farm.way == "jobs":
            yield owner, times.jobs * times.task
            yield workers, around(times.steps)
        else:
            yield owner, times.task
            yield workers, around(times.compile + times.nvrtc + times.steps)
        yield owner, times.task
        yield gpus, around(times.sweep)
        yield owner, record
        ended()

    def problem() -> Process:
        done, left = Gate(), farm.candidates

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                sim.open(done)

        yield gpus, around(times.prepare)
        for number in rng.sample(range(farm.skeletons), min(farm.candidates, farm.skeletons)):
            sim.start(candidate(number, ended))
        yield done
        yield owner, times.task
        yield gpus, around(times.final)
        yield owner, record

    for _ in range(farm.problems):
        sim.start(problem())
    seconds = sim.run()
    cost = (farm.workers * CORE_HOUR + farm.gpus * GPU_HOUR) * seconds / 3600
    busy = {r.name: round(r.used / (r.count * seconds), 3) for r in (owner, nvrtc, workers, gpus)}
    return {
        "way": farm.way,
        "problems": farm.problems,
        "workers": farm.workers,
        "gpus": farm.gpus,
        "hours": round(seconds / 3600, 3),
        **{f"{name}_busy": value for name, value in busy.items()},
        "limit": max(busy, key=lambda name: busy[name]),
        "usd_per_kernel": round(cost / farm.problems, 5),
    }


# The owner's costs, measured


def compile_seconds(count: int = 8) -> float:
    """Processor seconds of the passes and the emission of a candidate."""
    from bench.farm import ACTIVATIONS, program
    from mucc.compiler.program import compile_source
    from mucc.measure.tune.analysis import analyse
    from mucc.measure.tune.choosing import candidates_of, first_choice

    analysis = analyse(program(len(ACTIVATIONS)), "sm_90a", keep_pins=False)[0]
    stage = analysis.stages[0]
    found = candidates_of(analysis, stage, first_choice(analysis), count, 1.5)[:count]
    sources = [analysis.kernel.source(candidate.choice) for candidate in found]
    compile_source(sources[0], "sm_90a", tuned=False).parts()
    started = time.process_time()
    for source in sources:
        compile_source(source, "sm_90a", tuned=False).parts()
    return (time.process_time() - started) / len(sources)


def record_seconds(count: int = 200) -> float:
    """Seconds to store a measurement, on the disk of this machine."""
    from mucc.database.records import Record, Run, Stage, Status
    from mucc.database.store import Store

    run = Run(Status.GOOD, "", 1.0, 9)
    with tempfile.TemporaryDirectory() as folder, Store(str(Path(folder, "tuning.db"))) as store:
        started = time.perf_counter()
        for i in range(count):
            stages = (Stage("out", "problem", "body", {"tile": f"{i}"}),)
            store.add(
                [Record("sm_90a", "card", "kernel", "f", {"M": i}, stages, run, "s", "0", "2026-01-01")]
            )
        return (time.perf_counter() - started) / count


def task_seconds(count: int = 300) -> float:
    """Processor seconds of this process to have a job run by a cluster of this machine."""
    from mucc.build.cluster.connection import disconnect
    from mucc.build.cluster.runner import runner_for
    from mucc.build.jobs import Job, Kind
    from mucc.build.pool import Pool

    job = Job("program", "step", Kind.OBJECT, ("cp", "in", "out"), {"in": b"x" * 20_000}, ("out",))
    with Pool(runner=runner_for("local")) as pool:
        for _ in range(4):
            pool.run(job)
        started = time.process_time()
        for future in [pool.submit(job) for _ in range(count)]:
            future.result()
        seconds = (time.process_time() - started) / count
    disconnect()
    return seconds


def recorded_costs() -> dict[str, float]:
    """Read the owner's costs that were measured on this kind of machine."""
    recorded = json.loads((RESULTS / cpu_label() / "scale.json").read_text(encoding="utf-8"))
    return recorded["rows"][0]["owner"]


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--problems", type=at_least_one, default=10_000)
    parser.add_argument("--candidates", type=at_least_one, default=8, help="of each problem")
    parser.add_argument("--skeletons", type=at_least_one, default=600, help="different ones of all problems")
    parser.add_argument("--no-ray", action="store_true", help="do not measure what a task costs")
    parser.add_argument(
        "--keep-costs",
        action="store_true",
        help="simulate with the owner's costs that are recorded: on a busy machine they would be too high",
    )
    args = parser.parse_args()
    if args.keep_costs:
        times = replace(TIMES, **recorded_costs())
    else:
        times = replace(TIMES, compile=compile_seconds(), record=record_seconds())
        if not args.no_ray:
            times = replace(times, task=task_seconds())
    owner = {"compile": times.compile, "task": times.task, "record": times.record}
    owner = {name: round(value, 5) for name, value in owner.items()}
    print(f"seconds of the owner: {owner}")
    ways: Sequence[Way] = ("jobs", "programs", "batches")
    sizes = [(10, 1), (100, 8), (1000, 64), (4000, 256)]
    rows = [
        simulated(Farm(args.problems, args.candidates, args.skeletons, *size, way, times))
        for way in ways
        for size in sizes
    ]
    for row in rows:
        print(row)
    summary = {
        f"scale.{row['way']}.workers_{row['workers']}.{name}": float(row[name])
        for row in rows
        for name in ("hours", "usd_per_kernel")
    }
    write_result(cpu_label(), "scale", [{"owner": owner}, *rows], summary)
    return 0


if __name__ == "__main__":
    run_main(main)
