"""Mutated sources and random programs through the whole command, in this process's children.

    python -m bench.fuzz [--mutants N] [--programs N] [--chains N] [--layers N] [--schedules N]
        [--seconds S] [--seed TEXT] [-j N] [-o FILE] [--again] [--nvcc N]

A mutant goes through check, layout, the edits of its diagnostics, a level of the IR or C++, and some through
the command line: nothing crashes or hangs, no diagnostic is a defect's or points outside of the text, JSON
can be read back, an edit leads to no error again, check refuses what a build refuses, files are whole. A
generated program is compiled for every target and emitted, interpreted before and after lowering, and for
a share g++ reads the host's half of its kernels. A chain of operations is interpreted after each pass,
without roundings; where nothing rounds before its results, kernels round nothing either. So is a layer, a
product or a convolution with norms behind, whose kernels join however small they are. A schedule has drawn
values, legal or not: it is refused with a code, or the program is interpreted after each pass, and in each
entry for several sizes. `--nvcc` builds a sample of the programs besides.

The same seed gives the same sources. What is done is kept in FILE: a run that was ended goes on there, and
tries with `--again` once more what had findings.
Findings are shrunk and printed; the exit status is 1 where there are some. `--replay FILE` tries one source.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.common import at_least_one, cpu_label, write_result
from bench.fuzz.checks import Outcome
from bench.fuzz.sources import Drawn, program
from bench.fuzz.trying import CHUNK, Chunk, again, prepare, row_of, run_chunk
from bench.lines import Lines

BUILDS = 2
"""Programs that nvcc builds at a time, of some 4 GB each."""


class Run:
    """A run: which chunks are done, in a file of one line each, the last of each chunk.

    With `again` chunks that have findings count as not done.
    """

    def __init__(self, path: Path, again: bool = False):
        self._lines = Lines(path)
        self._rows = {tuple(row["chunk"]): row for row in self._lines.found}
        if again:
            self._rows = {chunk: row for chunk, row in self._rows.items() if not row["findings"]}

    @property
    def done(self) -> Collection[tuple[Any, ...]]:
        return self._rows.keys()

    @property
    def rows(self) -> Collection[dict[str, Any]]:
        return self._rows.values()

    def take(self, row: dict[str, Any]) -> None:
        self._rows[tuple(row["chunk"])] = row
        self._lines.add(row)
        for finding in row["findings"]:
            show(finding)

    def findings(self) -> list[dict[str, Any]]:
        return [finding for row in self.rows for finding in row["findings"]]

    def count(self, kind: str) -> int:
        return sum(sum(row["counts"].values()) for row in self.rows if row["chunk"][0] == kind)


def show(finding: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"== {finding['kind']} {finding['code']} ({finding['of']} {finding['seed']}, {finding['target']})")
    print(f"{finding['detail']}\n-- source:\n{finding['text']}", flush=True)


def crashed(chunk: Chunk) -> dict[str, Any]:
    """The row of a chunk that ended its process."""
    finding = {
        "kind": "crash",
        "code": "process",
        "detail": "the process ended",
        "of": chunk.kind,
        "text": "",
    }
    finding |= {"seed": f"{chunk.seed}/{chunk.kind}/{chunk.number}", "origin": "", "target": "", "dims": {}}
    return {"chunk": list(chunk), "counts": {"crash": 1}, "codes": {}, "seconds": 0.0, "findings": [finding]}


def work(chunks: Sequence[Chunk], run: Run, jobs: int, until: float) -> None:
    """Try the chunks that are not done yet, begin none after `until`."""
    left = [chunk for chunk in chunks if tuple(chunk) not in run.done]
    left.reverse()
    while left and time.monotonic() < until:
        running: dict[Future[dict[str, Any]], Chunk] = {}
        pool = ProcessPoolExecutor(jobs, get_context("spawn"), prepare)
        try:
            while (left and time.monotonic() < until) or running:
                while left and len(running) < jobs and time.monotonic() < until:
                    chunk = left.pop()
                    running[pool.submit(run_chunk, chunk)] = chunk
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    run.take(future.result())
                    del running[future]
        except BrokenProcessPool:
            # One of those that ran has ended its process: each is tried alone.
            suspects = list(running.values())
            for chunk in suspects:
                with ProcessPoolExecutor(1, get_context("spawn"), prepare) as alone:
                    try:
                        run.take(alone.submit(run_chunk, chunk).result())
                    except BrokenProcessPool:
                        run.take(crashed(chunk))
        finally:
            pool.shutdown(cancel_futures=True)


def chunks_of(seed: str, wanted: dict[str, int]) -> list[Chunk]:
    """The chunks of a run, all kinds in turns."""
    kinds = {kind: -(-count // CHUNK[kind]) for kind, count in wanted.items()}
    places = [((n + 0.5) / total, kind, n) for kind, total in kinds.items() for n in range(total)]
    return [Chunk(kind, seed, n) for _, kind, n in sorted(places)]


def build_sample(seed: str, count: int, run: Run, jobs: int, until: float) -> None:
    """Build as many programs by nvcc as asked for, and begin none after `until`.

    Those that nvcc rejects are findings; those that the compiler refuses do not count.
    """
    with ThreadPoolExecutor(jobs) as pool:
        numbers = (n for n in itertools.count() if ("nvcc", seed, n) not in run.done)
        running = set[Future[dict[str, Any]]]()
        while running or run.count("nvcc") < count:
            while len(running) < min(jobs, count - run.count("nvcc")) and time.monotonic() < until:
                number = next(numbers)
                running.add(pool.submit(build_one, seed, number, program(f"{seed}/nvcc/{number}")))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                run.take(future.result())
                print(f"nvcc: {run.count('nvcc')} of {count} built", flush=True)


def build_one(seed: str, number: int, drawn: Drawn) -> dict[str, Any]:
    """Build a program by nvcc: a row that counts it, or counts nothing where the compiler refuses it."""
    from mucc.build.artefact import Request, build
    from mucc.build.pool import Pool
    from mucc.diagnostics.core import DiagnosticError

    began = time.monotonic()
    request = Request(
        drawn.text.encode(), "f.mcu", target=drawn.target, dims=drawn.dims, tuned=False, timeout=900
    )
    counts, findings = {"built": 1}, list[dict[str, Any]]()
    try:
        with Pool(1) as pool:
            build(request, pool=pool)
    except DiagnosticError as error:
        first = error.diagnostics[0]
        counts = {}
        if first.code.startswith(("MU5", "MU9")):
            outcome = Outcome("nvcc", first.code, str(error)[:2000])
            findings = [row_of("nvcc", f"{seed}/nvcc/{number}", outcome, drawn)]
            counts = {"nvcc": 1}
    row = {"chunk": ["nvcc", seed, number], "counts": counts, "codes": {}, "findings": findings}
    return {**row, "seconds": round(time.monotonic() - began, 2)}


def summary(run: Run) -> dict[str, float]:
    """The figures of a run."""
    kinds = Counter[str]()
    for row in run.rows:
        kinds.update(row["counts"])
    return {
        "fuzz.mutants": run.count("mutants"),
        "fuzz.programs": run.count("programs"),
        "fuzz.chains": run.count("chains"),
        "fuzz.layers": run.count("layers"),
        "fuzz.schedules": run.count("schedules"),
        "fuzz.nvcc_built": run.count("nvcc"),
        "fuzz.nvcc_rejected": kinds["nvcc"],
        "fuzz.good": kinds["good"],
        "fuzz.refused": kinds["refused"],
        "fuzz.findings": len(run.findings()),
    }


def record(run: Run) -> Path:
    """Write the result: counts by kind and by code, and the findings."""
    rows: list[dict[str, Any]] = []
    for kind in ("mutants", "programs", "chains", "layers", "schedules", "nvcc"):
        own = [row for row in run.rows if row["chunk"][0] == kind]
        counts, codes = Counter[str](), Counter[str]()
        for row in own:
            counts.update(row["counts"])
            codes.update(row["codes"])
        seconds = round(sum(row["seconds"] for row in own))
        rows.append(
            {"of": kind, "counts": dict(counts), "codes": dict(codes.most_common()), "seconds": seconds}
        )
    return write_result(cpu_label(), "fuzz", [*rows, *run.findings()], summary(run))


def options() -> argparse.ArgumentParser:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--programs", type=int, default=3000)
    parser.add_argument("--chains", type=int, default=3000, help="chains of operations")
    parser.add_argument(
        "--layers", type=int, default=1000, help="products and convolutions with norms behind"
    )
    parser.add_argument("--schedules", type=int, default=500, help="programs with drawn schedules")
    parser.add_argument(
        "--nvcc", type=int, default=0, metavar="N", help="build so many of the programs by nvcc"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing new after so long")
    parser.add_argument("--seed", default="0")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "-o", "--output", help="keep what is done there, and go on from it (default: a new file)"
    )
    parser.add_argument("--again", action="store_true", help="try what FILE has findings of again")
    parser.add_argument("--record", action="store_true", help="write bench/results/<machine>/fuzz.json")
    parser.add_argument("--replay", metavar="FILE", help="try this source")
    parser.add_argument("--target", default="sm_90a", help="what --replay compiles for")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and say what was found."""
    args = options().parse_args(argv)
    if args.replay:
        drawn = Drawn("", args.target, args.replay)
        data = Path(args.replay).read_bytes()
        outcome = again("mutants", data, drawn)
        for kind in ("programs", "chains", "layers", "schedules"):
            outcome = outcome if outcome.is_finding else again(kind, data, drawn)
        print(outcome)
        return int(outcome.is_finding)
    handle, path = (None, args.output) if args.output else tempfile.mkstemp(".jsonl", "mucc-fuzz-")
    if handle is not None:
        os.close(handle)
    run = Run(Path(path), args.again)
    wanted = {
        "mutants": args.mutants,
        "programs": args.programs,
        "chains": args.chains,
        "layers": args.layers,
        "schedules": args.schedules,
    }
    until = time.monotonic() + args.seconds
    work(chunks_of(args.seed, wanted), run, args.jobs, until)
    build_sample(args.seed, args.nvcc, run, min(args.jobs, BUILDS), until)
    if args.record:
        print(record(run))
    print(json.dumps(summary(run), indent=1))
    return int(bool(run.findings()))


if __name__ == "__main__":
    sys.exit(main())
