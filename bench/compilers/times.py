"""How long other compilers take to compile a fused linear layer: `python -m bench.compilers.times`.

Every compiler runs in processes of its own with an empty cache: some that compile one epilogue and end
(cold), and one that goes on with other activations (a new epilogue in a warm process) and checks what all of
them give. A compiler that is not there, fails, computes nonsense or takes too long gives a row that says so.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.common import ROOT, Row, run_main, versions, write_result
from bench.compilers import DISTRIBUTIONS, RIVALS
from bench.compilers.problem import TOLERANCE, VARIANTS
from bench.timing import card, gpu_versions
from mucc.measure.run import gpu_problem


@dataclass(slots=True)
class Rival:
    """Seconds of one compiler: medians over cold processes, and over the further variants of a warm one.

    `cold_s` is the first compilation of a process without imports; `process_s` is the whole process that does
    it, with its imports and the GPU's context; `warm_s` is a new epilogue in a process that has compiled
    another one. `error` is the worst one of all variants. None where `problem` was in the way.
    """

    name: str
    import_s: float | None = None
    cold_s: float | None = None
    process_s: float | None = None
    warm_s: float | None = None
    warm_worst_s: float | None = None
    error: float | None = None
    problem: str = ""


def run_child(name: str, cold: bool, timeout: float) -> tuple[dict[str, Any], float]:
    """What a child process measured, and the seconds it lived. Raises RuntimeError with what went wrong."""
    with tempfile.TemporaryDirectory(prefix="mucc-bench-", ignore_cleanup_errors=True) as folder:
        cache, out, err = (Path(folder, part) for part in ("cache", "out", "err"))
        cache.mkdir()
        command = [sys.executable, "-m", "bench.compilers", name, str(cache), *(["--cold"] if cold else [])]
        # A session of its own and files for what it prints: a compiler has workers, which end with it.
        with out.open("w") as to_out, err.open("w") as to_err:
            started = time.perf_counter()
            child = subprocess.Popen(command, cwd=ROOT, stdout=to_out, stderr=to_err, start_new_session=True)
            try:
                child.wait(timeout)
                seconds = time.perf_counter() - started
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"not done after {timeout:g} s") from None
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        if child.returncode:
            lines = [line.strip() for line in err.read_text().splitlines() if line.strip()]
            raise RuntimeError(lines[-1][:300] if lines else f"exit status {child.returncode}")
        return json.loads(out.read_text().splitlines()[-1]), seconds


def measure(name: str, *, runs: int = 2, timeout: float = 150) -> Rival:
    """Measure one compiler, `runs` cold processes and a warm one, each within `timeout` seconds."""
    rival = Rival(name)
    try:
        cold = [run_child(name, True, timeout) for _ in range(runs)]
        warm, _ = run_child(name, False, timeout)
    except RuntimeError as error:
        rival.problem = str(error)
        return rival
    rival.error = max(warm["errors"])
    if not rival.error <= TOLERANCE:
        wrong = [v for v, e in zip(VARIANTS, warm["errors"], strict=True) if not e <= TOLERANCE]
        rival.problem = f"wrong results of {', '.join(wrong)}"
        return rival
    rival.import_s = statistics.median(found["import_s"] for found, _ in cold)
    rival.cold_s = statistics.median(found["seconds"][0] for found, _ in cold)
    rival.process_s = statistics.median(seconds for _, seconds in cold)
    rival.warm_s = statistics.median(warm["seconds"][1:])
    rival.warm_worst_s = max(warm["seconds"][1:])
    return rival


def measure_all(names: Sequence[str] = tuple(RIVALS), *, runs: int = 2, timeout: float = 150) -> list[Row]:
    """A row for each compiler, printed as it comes."""
    rows: list[Row] = []
    for name in names:
        rival = measure(name, runs=runs, timeout=timeout)
        shown = [
            f"{f.name[:-2]} {value:.2f} s"
            for f in dataclasses.fields(rival)
            if f.name.endswith("_s") and (value := getattr(rival, f.name)) is not None
        ]
        error = "" if rival.error is None else f"error {rival.error:.1e}"
        print(f"{name:<28} {'  '.join(filter(None, [*shown, error, rival.problem]))}", flush=True)
        rows.append(dataclasses.asdict(rival))
    return rows


def summarise(rows: Sequence[Row]) -> dict[str, float]:
    """`compilers.<name>.cold_s` and so on, of those that were measured."""
    return {
        f"compilers.{row['name']}.{key}": round(value, 3)
        for row in rows
        for key in ("cold_s", "process_s", "warm_s")
        if isinstance(value := row[key], float)
    }


def main() -> list[Row]:
    """Measure, print, write the result; the rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(RIVALS), help="comma-separated names (default: all)")
    parser.add_argument("--runs", type=int, default=2, help="cold processes of each (default: 2)")
    parser.add_argument("--timeout", type=float, default=150, help="seconds for a process (default: 150)")
    options = parser.parse_args()
    names: list[str] = options.only.split(",")
    if unknown := sorted(set(names) - set(RIVALS)):
        parser.error(f"there is no compiler {', '.join(unknown)}, there are {', '.join(RIVALS)}")
    if problem := gpu_problem("sm_90a"):
        parser.exit(1, f"{parser.prog}: {problem}\n")
    rows = measure_all(names, runs=options.runs, timeout=options.timeout)
    torch: Any = importlib.import_module("torch")
    found = {**gpu_versions(torch), **versions(*DISTRIBUTIONS)}
    print(
        write_result(
            card(torch), "compilers", rows, summarise(rows), extra_versions=found, module="compilers.times"
        )
    )
    return rows


if __name__ == "__main__":
    run_main(main)
