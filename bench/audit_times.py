"""Times that the audit accepts, against ncu and CUPTI on the same kernels: 5 us to 50 ms.

    python -m bench.audit_times [--no-ncu] [--only NAME] [--seconds 60] [--runs 30] [--record audit_times]

Kernels are of Triton: `flips` computes in registers for as long as is asked, `scaled` moves memory. All are
measured from a cold cache: ncu clears it (`--cache-control all`), at the clocks that the card takes by itself
(`--clock-control none`); under CUPTI, PyTorch's profiler, and for the audit other memory is read before.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import ROOT, at_least_one, run_main, versions, write_result
from mucc.agent.audit import Options
from mucc.agent.audit.auditing import Auditor
from mucc.diagnostics.core import DiagnosticError

KERNELS = '''
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def flips(x, y, count, turns, BLOCK: tl.constexpr):
    """2 x, after each number was taken from 1 an even number of times."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + places, mask=places < count)
    for _ in range(turns):
        value = 1.0 - value
        value = 1.0 - value
    tl.store(y + places, value * 2.0, mask=places < count)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        flips[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), TURNS, BLOCK=1024)
        return y
'''

PROBLEM = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.rand(COUNT)]


def get_init_inputs():
    return []
"""


class Kernel(NamedTuple):
    """A kernel, on so many numbers, each of which is flipped `turns` times."""

    name: str
    numbers: int
    turns: int


ALL = (
    Kernel("flips 10 us", 1 << 16, 1000),
    Kernel("flips 500 us", 1 << 16, 52_000),
    Kernel("flips 50 ms", 1 << 16, 5_200_000),
    Kernel("scaled 64 MiB", 1 << 24, 0),
    Kernel("flips 5 us", 1 << 16, 300),
    Kernel("flips 50 us", 1 << 16, 5000),
    Kernel("flips 5 ms", 1 << 16, 520_000),
    Kernel("scaled 16 MiB", 1 << 22, 0),
    Kernel("scaled 4 MiB", 1 << 20, 0),
    Kernel("scaled 256 MiB", 1 << 26, 0),
)


def text_of(kernel: Kernel) -> str:
    """The solution's file."""
    return KERNELS.replace("TURNS", str(kernel.turns))


SKIPPED, BY_NCU = 4, 8
"""Launches of a kernel that do not count, and of those that do under ncu."""


def launched(files: Sequence[str], runs: int, profiled: bool) -> list[list[float]]:
    """Make calls of solutions from a cold cache; their kernels' times in us by CUPTI where they are profiled.

    The number of elements is in a file's name.
    """
    import importlib
    import importlib.util

    torch: Any = importlib.import_module("torch")
    other = torch.zeros(torch.cuda.get_device_properties(0).L2_cache_size, device="cuda")
    found: list[list[float]] = []
    for file in files:
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        model = module.ModelNew()
        inputs = [torch.rand(int(Path(file).stem.split("_")[1]), device="cuda") for _ in range(2)]

        def calls(number: int, model: Any = model, inputs: list[Any] = inputs) -> None:
            for n in range(number):
                other.amax()
                model(inputs[n % 2])
            torch.cuda.synchronize()

        calls(SKIPPED)
        if not profiled:
            calls(runs)
            continue
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            calls(runs)
        events = profile.profiler.kineto_results.events()
        found.append([e.duration_ns() / 1e3 for e in events if e.name() == "flips"])
    return found


def _process(before: Sequence[str], files: Sequence[Path], runs: int, *more: str) -> str:
    words = [*before, sys.executable, "-m", "bench.audit_times", "--runs", str(runs), *more]
    words += ["--launch", *map(str, files)]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        raise OSError(f"{words[0]} fails: {(made.stdout + made.stderr)[-600:]}")
    return made.stdout


def by_cupti(files: Sequence[Path], runs: int) -> list[float]:
    """Return median times in us by PyTorch's profiler, one a kernel, in a new process. Raises OSError."""
    return [statistics.median(times) for times in json.loads(_process((), files, runs).splitlines()[-1])]


def by_ncu(files: Sequence[Path]) -> list[float]:
    """Return median times in us by ncu, one a kernel. Raises OSError."""
    words = ["ncu", "--clock-control", "none", "--cache-control", "all", "--csv", "--print-units", "base"]
    words += ["--metrics", "gpu__time_duration.sum", "--kernel-name", "flips"]
    said = _process(words, files, BY_NCU, "--bare")
    rows = list(csv.DictReader(line for line in said.splitlines() if line.startswith('"')))
    times = [float(row["Metric Value"].replace(",", "")) / 1e3 for row in rows]
    each = SKIPPED + BY_NCU
    if len(times) != each * len(files):
        raise OSError(f"ncu tells of {len(times)} launches, {each * len(files)} expected: {said[-300:]}")
    return [statistics.median(times[n * each + SKIPPED : (n + 1) * each]) for n in range(len(files))]


def measured(kernel: Kernel, auditor: Auditor, folder: Path, runs: int) -> tuple[dict[str, Any], Path]:
    """One row: the kernel's time in us by the audit; and its file."""
    problem = folder / "problem.py"
    solution = folder / f"solution_{kernel.numbers}_{kernel.turns}.py"
    problem.write_text(PROBLEM.replace("COUNT", str(kernel.numbers)), encoding="utf-8")
    solution.write_text(text_of(kernel), encoding="utf-8")
    row: dict[str, Any] = {"name": kernel.name, "numbers": kernel.numbers, "turns": kernel.turns}
    try:
        verdict = auditor.audit(str(problem), str(solution), Options(device="cuda", bound=False, runs=runs))
    except DiagnosticError as error:
        return row | {"why": str(error)[-600:]}, solution
    row |= {"verdict": verdict.state, "label": verdict.label.value}
    row["findings"] = [f"{f.detector}: {f.message}"[:200] for f in verdict.findings]
    row["seconds"] = {name: round(s, 2) for name, s in verdict.seconds.items()}
    if verdict.time_ms is not None:
        row["audit_us"] = round(verdict.time_ms * 1e3, 3)
        row["interval_us"] = [round(ms * 1e3, 3) for ms in verdict.interval_ms or ()]
    return row, solution


def compare(rows: Sequence[dict[str, Any]], other: str, times: Sequence[float]) -> None:
    """Add to rows what other means have measured."""
    for row, us in zip(rows, times, strict=True):
        row[f"{other}_us"] = round(us, 3)
        if "audit_us" in row:
            row[f"over_{other}"] = round(row["audit_us"] / us - 1, 4)
            row[f"more_than_{other}_us"] = round(row["audit_us"] - us, 3)


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The largest differences."""
    found: dict[str, float] = {"audit_times.kernels": len(rows)}
    for other in ("cupti", "ncu"):
        over = [abs(row[f"over_{other}"]) for row in rows if f"over_{other}" in row]
        more = [abs(row[f"more_than_{other}_us"]) for row in rows if f"over_{other}" in row]
        if over:
            found[f"audit_times.over_{other}.most"] = max(over)
            found[f"audit_times.over_{other}.median"] = statistics.median(over)
            found[f"audit_times.more_than_{other}_us.median"] = statistics.median(more)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Measure all kernels, and write the result as far as there is one after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=at_least_one, default=30)
    parser.add_argument("--only", default="", help="only kernels with this in their name")
    parser.add_argument("--seconds", type=float, default=math.inf, help="audit nothing new after so long")
    parser.add_argument("--no-ncu", action="store_true")
    parser.add_argument("--record", default="audit_times", help="name of the result")
    parser.add_argument("--launch", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.launch:
        print(json.dumps(launched(args.launch, args.runs, not args.bare)))
        return
    from importlib import import_module

    from bench.timing import card

    until = time.monotonic() + args.seconds
    rows: list[dict[str, Any]] = []
    files: list[Path] = []

    def write() -> None:
        found = versions("torch", "triton")
        label = card(import_module("torch"))
        write_result(label, args.record, rows, summary(rows), extra_versions=found, module="audit_times")

    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder:
        with Auditor() as auditor:
            for kernel in ALL:
                if args.only in kernel.name and time.monotonic() < until:
                    row, file = measured(kernel, auditor, Path(folder), args.runs)
                    rows.append(row)
                    files.append(file)
                    print(json.dumps(row), flush=True)
        others = {"cupti": lambda: by_cupti(files, args.runs), "ncu": lambda: by_ncu(files)}
        for name, times in others.items():
            if name == "ncu" and (args.no_ncu or not shutil.which("ncu")):
                continue
            try:
                compare(rows, name, times())
            except OSError as error:
                print(error, flush=True)
            write()
    for row in rows:
        kept = ("name", "label", "audit_us", "cupti_us", "ncu_us", "over_cupti", "over_ncu")
        print(*(row.get(key) for key in kept), flush=True)
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    run_main(main)
