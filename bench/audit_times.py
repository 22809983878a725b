"""Times that the audit accepts, against ncu and CUPTI on the same kernels: 5 us to 50 ms.

    python -m bench.audit_times [--no-ncu] [--only NAME] [--runs 30] [--record audit_times]

Kernels are of Triton: `flips` computes in registers for as long as is asked, `scaled` moves memory. All are
measured from a cold cache: ncu clears it (`--cache-control all`), at the clocks that the card takes by itself
(`--clock-control none`); under CUPTI, PyTorch's profiler, and for the audit other memory is read before.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
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
    Kernel("flips 5 us", 1 << 16, 300),
    Kernel("flips 10 us", 1 << 16, 1000),
    Kernel("flips 50 us", 1 << 16, 8000),
    Kernel("flips 500 us", 1 << 16, 90_000),
    Kernel("flips 5 ms", 1 << 16, 900_000),
    Kernel("flips 50 ms", 1 << 16, 9_000_000),
    Kernel("scaled 4 MiB", 1 << 20, 0),
    Kernel("scaled 16 MiB", 1 << 22, 0),
    Kernel("scaled 64 MiB", 1 << 24, 0),
    Kernel("scaled 256 MiB", 1 << 26, 0),
)


def text_of(kernel: Kernel) -> str:
    """The solution's file."""
    return KERNELS.replace("TURNS", str(kernel.turns))


def launched(solution: str, count: int, runs: int, profiled: bool) -> list[float]:
    """Make calls from a cold cache; their kernels' times in us by CUPTI where they are profiled."""
    import importlib
    import importlib.util

    torch: Any = importlib.import_module("torch")
    spec = importlib.util.spec_from_file_location("solution", solution)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.ModelNew()
    other = torch.zeros(torch.cuda.get_device_properties(0).L2_cache_size, device="cuda")
    inputs = [torch.rand(count, device="cuda") for _ in range(2)]

    def calls(number: int) -> None:
        for n in range(number):
            other.amax()
            model(inputs[n % 2])
        torch.cuda.synchronize()

    calls(4)
    if not profiled:
        calls(runs)
        return []
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        calls(runs)
    events = profile.profiler.kineto_results.events()
    return [e.duration_ns() / 1e3 for e in events if e.name() == "flips"]


def by_cupti(solution: Path, kernel: Kernel, runs: int) -> float:
    """The median time in us of the kernel by PyTorch's profiler, in a process of its own."""
    words = [
        sys.executable,
        "-m",
        "bench.audit_times",
        "--launch",
        str(solution),
        str(kernel.numbers),
        str(runs),
    ]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if made.returncode:
        raise OSError(f"under the profiler {kernel.name} fails: {made.stderr[-500:]}")
    return statistics.median(json.loads(made.stdout.splitlines()[-1]))


def by_ncu(solution: Path, kernel: Kernel, runs: int) -> float | str:
    """The median time in us of the kernel by ncu, or why there is none."""
    words = ["ncu", "--clock-control", "none", "--cache-control", "all", "--csv", "--print-units", "base"]
    words += ["--metrics", "gpu__time_duration.sum", "--kernel-name", "flips", "--launch-skip", "4"]
    words += ["--replay-mode", "kernel", sys.executable, "-m", "bench.audit_times"]
    words += ["--launch", str(solution), str(kernel.numbers), str(runs), "--bare"]
    made = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in made.stdout.splitlines() if line.startswith('"')]
    times = [float(row["Metric Value"].replace(",", "")) / 1e3 for row in csv.DictReader(lines)]
    return statistics.median(times) if times else (made.stdout + made.stderr)[-400:]


def measured(kernel: Kernel, auditor: Auditor, folder: Path, runs: int, ncu: bool) -> dict[str, Any]:
    """One row: the kernel's time in us by the audit, CUPTI and ncu."""
    problem, solution = folder / "problem.py", folder / f"solution_{kernel.numbers}_{kernel.turns}.py"
    problem.write_text(PROBLEM.replace("COUNT", str(kernel.numbers)), encoding="utf-8")
    solution.write_text(text_of(kernel), encoding="utf-8")
    row: dict[str, Any] = {"name": kernel.name, "numbers": kernel.numbers, "turns": kernel.turns}
    verdict = auditor.audit(str(problem), str(solution), Options(device="cuda", bound=False, runs=runs))
    row["verdict"], row["label"] = verdict.state, verdict.label.value
    if verdict.time_ms is None:
        return row | {"why": verdict.as_text()[-600:]}
    row["audit_us"] = round(verdict.time_ms * 1e3, 3)
    row["findings"] = [f.message[:200] for f in verdict.findings]
    row["seconds"] = {name: round(s, 2) for name, s in verdict.seconds.items()}
    row["cupti_us"] = round(by_cupti(solution, kernel, runs), 3)
    if ncu:
        found = by_ncu(solution, kernel, min(runs, 10))
        row |= {"ncu_us": round(found, 3)} if isinstance(found, float) else {"ncu": found}
    for other in ("cupti", "ncu"):
        if f"{other}_us" in row:
            row[f"over_{other}"] = round(row["audit_us"] / row[f"{other}_us"] - 1, 4)
            row[f"more_than_{other}_us"] = round(row["audit_us"] - row[f"{other}_us"], 3)
    return row


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
    parser.add_argument("--no-ncu", action="store_true")
    parser.add_argument("--record", default="audit_times", help="name of the result")
    parser.add_argument("--launch", nargs=3, metavar=("SOLUTION", "COUNT", "RUNS"), help=argparse.SUPPRESS)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.launch:
        solution, count, runs = args.launch
        print(json.dumps(launched(solution, int(count), int(runs), not args.bare)))
        return
    from importlib import import_module

    from bench.timing import card

    rows: list[dict[str, Any]] = []
    ncu = not args.no_ncu and shutil.which("ncu") is not None
    label = ""
    with tempfile.TemporaryDirectory(prefix="mucc-bench-") as folder, Auditor() as auditor:
        for kernel in ALL:
            if args.only not in kernel.name:
                continue
            try:
                row = measured(kernel, auditor, Path(folder), args.runs, ncu)
            except (DiagnosticError, OSError) as error:
                row = {"name": kernel.name, "why": str(error)[-800:]}
            rows.append(row)
            print(json.dumps(row), flush=True)
            label = label or card(import_module("torch"))
            found = versions("torch", "triton")
            write_result(label, args.record, rows, summary(rows), extra_versions=found, module="audit_times")
    print(json.dumps(summary(rows), indent=1))


if __name__ == "__main__":
    run_main(main)
