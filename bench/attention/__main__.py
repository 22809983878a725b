"""Attention against the best backend of SDPA, FlexAttention where SDPA has none, and a copy of the cache.

    python -m bench.attention [--only REGEX] [--build-only | --measure-only] [--budget-seconds S] [-o WORK]

Programs are built first, on any machine (`--build-only`); WORK holds their libraries, which `--measure-only`
takes as they are. Calls that are measured already are not measured again, so a run that was ended goes on,
and one that is limited in time is continued by the next. All contenders of a call are timed in turns as CUDA
graphs, on the same tensors, from a cold L2. FlexAttention is compiled. Errors are those from float64 on some
rows. Numbers are bf16. A few queries are held against a copy's bandwidth, on the bytes of keys and values.
"""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.attention.cases import CASES, SDPA, Case
from bench.attention.measuring import Values, measure
from bench.common import at_least_one, run_main, versions, write_result
from bench.kernelbench.building import build_all
from bench.kernelbench.records import Records
from bench.timing import card, gpu_versions
from mucc.agent.report.figures import geomean
from mucc.files.digest import digest

LARGE = 64 << 20
"""Bytes of a cache above which reading it is held against a copy: less stays in L2."""


@dataclass(frozen=True)
class Options:
    """What libraries are built for, how many jobs run at once, and seconds for one."""

    target: str
    jobs: int
    time_limit: float


def build_cases(cases: Sequence[Case], folder: Path, options: Options) -> int:
    """Build the library of each kernel; return how many cannot be built."""
    folder.mkdir(parents=True, exist_ok=True)
    places = {folder / f"{case.kernel}.mcu": case.text for case in cases}
    for path, text in places.items():
        path.write_text(text)
    failed = 0
    for path, values in build_all(list(places), options):
        if not values["built"]:
            failed += 1
            path.with_suffix(".so").unlink(missing_ok=True)
        print(f"{path.stem}: {values.get('error') or 'built'}", flush=True)
    return failed


def loaded(case: Case, folder: Path) -> tuple[Any, str]:
    """Return a kernel and a digest of its library. Raises ValueError where the library is not there."""
    import mucc

    source, library = folder / f"{case.kernel}.mcu", folder / f"{case.kernel}.so"
    if not library.exists() or not source.exists() or source.read_text() != case.text:
        raise ValueError("there is no library of it: it is built with --build-only")
    return getattr(mucc.load(library), case.kernel), digest(library.read_bytes().hex())


def figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Geometric means and the least of good rows, over SDPA, over FlexAttention, and of a copy."""
    good = [row for row in rows if row.get("good")]
    found: dict[str, float] = {
        "attention.calls": len(rows),
        "attention.wrong": sum("mucc_ms" in row and not row["good"] for row in rows),
        "attention.not_measured": sum("mucc_ms" not in row for row in rows),
    }
    parts = {
        "over_best_sdpa": [r["over"] for r in good if "over" in r and r["kind"] in SDPA[:-1]],
        "over_flex": [r["over"] for r in good if "over" in r and r["kind"] not in SDPA],
        "decode_over_sdpa": [r["over"] for r in good if "over" in r and r["kind"] == "decode"],
        "decode_over_copy": [r["of_copy"] for r in good if r.get("cache_bytes", 0) > LARGE],
    }
    for name, values in parts.items():
        if values:
            found[f"attention.{name}_geomean"] = round(geomean(values), 4)
            found[f"attention.{name}_min"] = round(min(values), 4)
    return found


def line(row: Mapping[str, Any]) -> str:
    """A row of the table; of a call that has no times, why."""
    if "mucc_ms" not in row:
        return f"{row['call']:36} {row.get('error', 'not measured')}"
    times = "  ".join(f"{n[:-3]} {v:.4f}" for n, v in row.items() if n.endswith("_ms"))
    share = f"copy {row['of_copy']:.2f}" if "of_copy" in row else f"{row['tflops']:6.1f} TFLOP/s"
    over = f"{row['over']:.3f}" if "over" in row else "-"
    word = "" if row["good"] else "  WRONG"
    return f"{row['call']:36} {share}  over {over}  ms: {times}  error {row['errors']['mucc']:.1e}{word}"


class Run:
    """Calls measured on this GPU, with records that the next run goes on from."""

    def __init__(self, folder: Path, rounds: int):
        from bench.gemm.measure import copy_bandwidth

        self.folder, self.rounds = folder, rounds
        self.torch: Any = importlib.import_module("torch")
        self.records = Records(folder / f"attention.{card(self.torch)}.jsonl")
        self.copy = copy_bandwidth(self.torch)

    def row(self, case: Case, *, again: bool) -> Values:
        """Return the row of a call, measured now or before."""
        head: Values = {"call": case.key, "kind": case.kind}
        try:
            kernel, library = loaded(case, self.folder)
            depends = digest(library, self.torch.__version__)
            if not again and (known := self.records.find(case.key, "call", depends)) is not None:
                return head | known
            values = measure(self.torch, kernel, case, self.rounds, self.copy)
        except self.torch.OutOfMemoryError:
            return head | {"error": "the GPU's memory is too small"}
        except (ValueError, RuntimeError, TypeError) as error:
            return head | {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:300]}
        finally:
            self.torch.cuda.empty_cache()
        self.records.add(case.key, "call", depends, values)
        return head | values


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.attention",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="calls such as causal/d128 that match")
    parser.add_argument(
        "-o", "--output", default="build/attention", metavar="WORK", help="folder of libraries"
    )
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--build-only", action="store_true", help="measure nothing; needs no GPU")
    stages.add_argument("--measure-only", action="store_true", help="take libraries as they are")
    stages.add_argument("--list", action="store_true", help="print the calls")
    parser.add_argument("--budget-seconds", type=float, default=0.0, metavar="S", help="begin no call later")
    parser.add_argument("--again", action="store_true", help="measure again what is measured")
    parser.add_argument("--no-record", action="store_true", help="write no result file")
    parser.add_argument("--rounds", type=at_least_one, default=30, help="turns of each contender (30)")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1, help="compilers at once")
    parser.add_argument("--time-limit", type=float, default=600.0, metavar="S", help="to build one (600)")
    args = parser.parse_args()
    started, folder = time.monotonic(), Path(args.output)
    cases = [case for case in CASES if re.search(args.only, case.key)]
    if not cases:
        raise SystemExit(f"no call matches '{args.only}'")
    if args.list:
        print("\n".join(case.key for case in cases))
        return 0
    failed = 0
    if not args.measure_only:
        failed = build_cases(cases, folder, Options(args.target, args.jobs, args.time_limit))
    if args.build_only:
        return int(failed > 0)
    run = Run(folder, args.rounds)
    print(f"a copy moves {run.copy / 1e12:.3f} TB/s", flush=True)
    rows: list[Values] = []
    left: list[str] = []
    for case in cases:
        if args.budget_seconds and time.monotonic() - started > args.budget_seconds:
            left.append(case.key)
            continue
        rows.append(run.row(case, again=args.again))
        print(line(rows[-1]), flush=True)
    summary = figures(rows) | {"attention.copy_tb_per_s": round(run.copy / 1e12, 4)}
    print("".join(f"{name:44} {value:g}\n" for name, value in summary.items()), end="")
    if left:
        print(f"{len(left)} calls are left for the next run, the first of them {left[0]}")
    if not args.no_record:
        found = {**gpu_versions(run.torch), **versions("triton")}
        print(write_result(card(run.torch), "attention", rows, summary, extra_versions=found))
    return int(any("mucc_ms" not in row or not row["good"] for row in rows))


if __name__ == "__main__":
    run_main(main)
