"""What benchmarks of programs against PyTorch share: libraries that are built before, records, options.

Programs are built first, on any machine (`--build-only`); WORK holds their libraries, which `--measure-only`
takes as they are. Problems that are measured already are not measured again, so a run that was ended goes on,
and one that is limited in time is continued by the next.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from bench.common import at_least_one, versions, write_result
from bench.kernelbench.building import build_all
from bench.kernelbench.records import Records
from bench.timing import card, gpu_versions
from mucc.files.digest import digest

Values = dict[str, Any]
Row = Mapping[str, Any]


class Problem(Protocol):
    """A kernel of a program, with inputs of given extents."""

    @property
    def key(self) -> str:
        """The name, such as `level1/softmax`."""
        ...

    @property
    def stem(self) -> str:
        """The path of the program in the folder of libraries, without suffix. Problems may share one."""
        ...

    @property
    def kernel(self) -> str: ...
    @property
    def text(self) -> str:
        """The program."""
        ...


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Options:
    """The target of libraries, the number of jobs at a time, and the time limit of each in seconds."""

    target: str
    jobs: int
    time_limit: float


@dataclass(frozen=True)
class Session:
    """What measurements need: PyTorch, turns of each contender, and a copy's bytes per second.

    `compiled` names the contenders of torch.compile.
    """

    torch: Any
    rounds: int
    copy: float
    compiled: tuple[str, ...] = ()


class Bench(ABC, Generic[P]):
    """A benchmark: its problems, how one is measured, and what its rows come to."""

    name: ClassVar[str]
    """The name of the result file and of figures."""
    noun: ClassVar[str]
    """What a problem is called, such as `layer`."""
    example: ClassVar[str]
    """A key, or the beginning of one."""
    head: ClassVar[str] = ""
    """The line above the table."""
    width: ClassVar[int] = 56
    """Columns for the name of a figure."""
    has_compiled: ClassVar[bool] = False
    """Whether torch.compile is a contender."""
    distributions: ClassVar[tuple[str, ...]] = ("triton",)
    """Distributions whose versions results name."""

    problems: Sequence[P]

    @abstractmethod
    def begin(self, problem: P) -> Values:
        """Return what a row says of a problem, measured or not."""

    @abstractmethod
    def measure(self, session: Session, kernel: Any, problem: P) -> Values:
        """Return errors and times of a problem. `mucc_ms` and `good` must be among them."""

    @abstractmethod
    def figures(self, rows: Sequence[Row]) -> dict[str, float]:
        """Return the summary of a run."""

    @abstractmethod
    def line(self, row: Row) -> str:
        """Return a row of the table; of a problem that has no times, why."""

    def listed(self, problem: P) -> str:
        """Return what `--list` prints of a problem."""
        return f"// {problem.key}\n{problem.text}"


def paths_of(problem: Problem, folder: Path) -> tuple[Path, Path]:
    """Return where the program of a problem and its library lie."""
    stem = folder / problem.stem
    return stem.with_name(f"{stem.name}.mcu"), stem.with_name(f"{stem.name}.so")


def build_problems(problems: Sequence[Problem], folder: Path, options: Options) -> dict[str, str]:
    """Build the library of each program; the errors of problems that have none, by key."""
    places: dict[Path, list[Problem]] = {}
    for problem in problems:
        places.setdefault(paths_of(problem, folder)[0], []).append(problem)
    for path, (problem, *_) in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(problem.text)
    failed: dict[str, str] = {}
    started = time.monotonic()
    for n, (path, values) in enumerate(build_all(list(places), options), 1):
        if not values["built"]:
            failed |= {problem.key: values["error"] for problem in places[path]}
            paths_of(places[path][0], folder)[1].unlink(missing_ok=True)
        word = "from the cache" if values.get("cached") else values.get("error", "built")
        print(
            f"{n:4}/{len(places)} {time.monotonic() - started:6.0f} s  {places[path][0].stem}: {word}",
            flush=True,
        )
    return failed


def loaded(problem: Problem, folder: Path) -> tuple[Any, str]:
    """Return a problem's kernel, and a digest of its library.

    Raises ValueError where the library is not there. A library of an older program counts as missing.
    """
    import mucc

    source, library = paths_of(problem, folder)
    if not library.exists() or not source.exists() or source.read_text() != problem.text:
        raise ValueError("there is no library of it: it is built with --build-only")
    return getattr(mucc.load(library), problem.kernel), digest(library.read_bytes().hex())


class Run(Generic[P]):
    """Problems measured on this GPU, with records that the next run goes on from."""

    def __init__(self, bench: Bench[P], folder: Path, compiled: Sequence[str], rounds: int):
        from bench.gemm.measure import copy_bandwidth

        torch: Any = importlib.import_module("torch")
        self.bench, self.folder = bench, folder
        self.session = Session(torch, rounds, copy_bandwidth(torch), tuple(compiled))
        self.records = Records(folder / f"{bench.name}.{card(torch)}.jsonl")

    def row(self, problem: P, *, again: bool) -> Values:
        """Return the row of a problem, measured now or before."""
        torch, head = self.session.torch, self.bench.begin(problem)
        try:
            kernel, library = loaded(problem, self.folder)
            depends = digest(library, problem.text, ",".join(self.session.compiled), torch.__version__)
            if not again and (known := self.records.find(problem.key, self.bench.noun, depends)) is not None:
                return head | known
            values = self.bench.measure(self.session, kernel, problem)
        except torch.OutOfMemoryError:
            return head | {"error": "the GPU's memory is too small"}
        except (ValueError, RuntimeError, TypeError) as error:
            return head | {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:300]}
        finally:
            torch.cuda.empty_cache()
        self.records.add(problem.key, self.bench.noun, depends, values)
        return head | values


def parser_of(bench: Bench[Any], description: str | None) -> argparse.ArgumentParser:
    """Return the parser of a benchmark's arguments."""
    noun = bench.noun
    parser = argparse.ArgumentParser(
        prog=f"python -m bench.{bench.name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", default="", metavar="REGEX", help=f"{noun}s such as {bench.example} that match"
    )
    parser.add_argument(
        "-o", "--output", default=f"build/{bench.name}", metavar="WORK", help="folder of libraries"
    )
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--build-only", action="store_true", help="measure nothing; needs no GPU")
    stages.add_argument("--measure-only", action="store_true", help="take libraries as they are")
    stages.add_argument("--list", action="store_true", help="print what would be measured")
    stages.add_argument(
        "--merge", nargs="+", metavar="JSON", help="write the result of what several runs wrote"
    )
    parser.add_argument(
        "--budget-seconds", type=float, default=0.0, metavar="S", help=f"begin no {noun} later"
    )
    if bench.has_compiled:
        parser.add_argument("--autotune", action="store_true", help="also torch.compile with max-autotune")
        parser.add_argument("--no-compile", action="store_true", help="no torch.compile")
    parser.add_argument("--again", action="store_true", help="measure again what is measured")
    parser.add_argument("--no-record", action="store_true", help="write no result file")
    parser.add_argument("--rounds", type=at_least_one, default=30, help="turns of each contender (30)")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1, help="compilers at once")
    parser.add_argument("--time-limit", type=float, default=600.0, metavar="S", help="to build one (600)")
    return parser


def merge_results(bench: Bench[Any], paths: Sequence[str]) -> Path:
    """Write the result of rows that several runs on one card measured; a later run's row counts.

    Raises ValueError where the runs differ in their card or in PyTorch.
    """
    runs = [cast(dict[str, Any], json.loads(Path(path).read_text())) for path in paths]
    last = runs[-1]
    for name, found in (
        ("cards", {r["card"] for r in runs}),
        ("torch", {r["versions"]["torch"] for r in runs}),
    ):
        if len(found) > 1:
            raise ValueError(f"runs of several {name}: {', '.join(sorted(found))}")
    measured: list[Values] = [row for run in reversed(runs) for row in run["rows"]]
    rows: list[Values] = []
    for problem in bench.problems:
        named = bench.begin(problem).items()
        rows += [row for row in measured if named <= row.items()][:1]
    copies = [run["summary"][f"{bench.name}.copy_tb_per_s"] for run in runs]
    summary = bench.figures(rows) | {f"{bench.name}.copy_tb_per_s": max(copies)}
    print("".join(f"{name:{bench.width}} {value:g}\n" for name, value in summary.items()), end="")
    return write_result(last["card"], bench.name, rows, summary, extra_versions=last["versions"])


def run_bench(bench: Bench[P], args: argparse.Namespace) -> int:
    """Build and measure problems as the arguments say; the status of the process."""
    if args.merge:
        print(merge_results(bench, args.merge))
        return 0
    started, folder = time.monotonic(), Path(args.output)
    problems = [problem for problem in bench.problems if re.search(args.only, problem.key)]
    if not problems:
        raise SystemExit(f"no {bench.noun} matches '{args.only}'")
    if args.list:
        print("\n".join(map(bench.listed, problems)))
        return 0
    failed: dict[str, str] = {}
    if not args.measure_only:
        failed = build_problems(problems, folder, Options(args.target, args.jobs, args.time_limit))
    if args.build_only:
        return int(bool(failed))
    compiled: tuple[str, ...] = ()
    if bench.has_compiled and not args.no_compile:
        compiled = ("compile", *(["autotune"] if args.autotune else []))
    run = Run(bench, folder, compiled, args.rounds)
    torch, copy = run.session.torch, run.session.copy
    print(f"a copy moves {copy / 1e12:.3f} TB/s\n{bench.head}".rstrip(), flush=True)
    rows: list[Values] = []
    left: list[str] = []
    for problem in problems:
        if args.budget_seconds and time.monotonic() - started > args.budget_seconds:
            left.append(problem.key)
            continue
        row = run.row(problem, again=args.again)
        if "mucc_ms" not in row and problem.key in failed:
            row["error"] = failed[problem.key]
        rows.append(row)
        print(bench.line(row), flush=True)
    summary = bench.figures(rows) | {f"{bench.name}.copy_tb_per_s": round(copy / 1e12, 4)}
    print("".join(f"{name:{bench.width}} {value:g}\n" for name, value in summary.items()), end="")
    if left:
        print(f"{len(left)} {bench.noun}s are left for the next run, the first of them {left[0]}")
    if not args.no_record:
        found = {**gpu_versions(torch), **versions(*bench.distributions)}
        print(write_result(card(torch), bench.name, rows, summary, extra_versions=found))
    return int(any("mucc_ms" not in row or not row["good"] for row in rows))
