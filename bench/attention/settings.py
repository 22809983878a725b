"""Attention with settings of a schedule against the same kernel without one, on this GPU.

    python -m bench.attention.settings [--only REGEX] [--build-only | --measure-only] [-o WORK] [-j JOBS]

Of each shape, settings next to the default are tried: more and fewer keys and queries a tile, other
stages, other mainloops. All kernels of a shape are timed in turns as CUDA graphs, from a cold L2.
"""

from __future__ import annotations

import argparse
import importlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.attention.cases import Case
from bench.attention.measuring import dtype_of, errors_of, inputs_of, roundoff_of
from bench.common import at_least_one, run_main, write_result
from bench.gemm.measure import captured, timed
from bench.runner import Options, build_problems, loaded
from bench.timing import card, gpu_versions
from mucc.agent.report.figures import geomean
from mucc.kernels.attention.schedule import Problem, Schedule, complete, is_legal, neighbours
from mucc.target import get_target

SHAPES = (
    Case("full", 64, 4, 32, 1, 4096, 4096),
    Case("full", 128, 4, 16, 1, 4096, 4096),
    Case("causal", 64, 4, 32, 1, 4096, 4096),
    Case("causal", 128, 16, 16, 1, 1024, 1024),
    Case("causal", 128, 2, 16, 1, 8192, 8192),
    Case("softcap", 128, 4, 16, 1, 4096, 4096),
    Case("full_e4m3", 64, 4, 32, 1, 4096, 4096),
    Case("full_e4m3", 128, 4, 16, 1, 4096, 4096),
    Case("causal_e4m3", 128, 4, 16, 1, 4096, 4096),
)


@dataclass(frozen=True)
class Variant:
    """A shape with settings of a schedule; without any it is the default."""

    case: Case
    schedule: Schedule
    is_default: bool

    @property
    def key(self) -> str:
        """What names a variant among those of all shapes."""
        return f"{self.case.key} {self.word}"

    @property
    def kernel(self) -> str:
        """The name of the kernel in the program, the same for all variants of a shape."""
        return self.case.kernel

    @property
    def stem(self) -> str:
        """The name of the library's file, without a suffix."""
        return self.kernel if self.is_default else f"{self.kernel}-{self.word.replace(' ', '-')}"

    @property
    def word(self) -> str:
        """The settings, as results show them."""
        s = self.schedule
        settings = f"{s.mainloop} {s.rows}x{s.columns} {s.stages} stages"
        return f"default ({settings})" if self.is_default else settings

    @property
    def text(self) -> str:
        """The program, with a schedule unless it is the default."""
        if self.is_default:
            return self.case.text
        s = self.schedule
        settings = (
            f"tile = {s.rows}x{s.columns}x{s.depth}",
            f"mainloop = {s.mainloop}",
            f"stages = {s.stages}",
        )
        lines = "".join(f"    {setting}\n" for setting in settings)
        return f"{self.case.text}\nschedule {self.kernel} for sm_90a {{\n{lines}}}\n"


def problem_of(case: Case) -> Problem:
    """Return a shape as its schedule is chosen, all extents open but for those of a row."""
    return Problem(
        compute=case.dtype,
        width=case.width,
        result_width=case.width,
        rows=None,
        columns=None,
        batch=None,
        group=None,
        causal=case.is_causal,
        ranged=case.is_causal,
        plain=case.kind != "softcap",
        page=0,
        may_decode=case.dtype == "bf16",
        is_many=True,
        has_warpgroups=True,
        shared_memory=get_target("sm_90a").smem_bytes,
    )


def variants_of(case: Case) -> Iterator[Variant]:
    """Yield the default of a shape, then its neighbours and the default of each other mainloop."""
    problem = problem_of(case)
    usual = complete(problem, {})
    yield Variant(case, usual, True)
    others = [complete(problem, {"mainloop": loop}) for loop in problem.mainloops[1:]]
    if case.dtype == "e4m3":  # also tiles that are no neighbours of the default
        tiles = ((rows, columns, problem.depth) for rows in (128, 192) for columns in range(96, 225, 32))
        others += (s for t in tiles if is_legal(problem, s := complete(problem, {"tile": t})) and s != usual)
    yield from (Variant(case, s, False) for s in dict.fromkeys([*others, *neighbours(problem, usual)]))


def measured(torch: Any, variants: Sequence[Variant], folder: Path, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each variant of one shape: its time in ms, and the default's speed over it."""
    case = variants[0].case
    torch.manual_seed(0)
    inputs = inputs_of(torch, case)
    results, calls, failed = dict[str, Any](), dict[str, Any](), dict[str, str]()
    for variant in variants:
        try:
            kernel = loaded(variant, folder)[0]
            result = torch.full(
                case.shapes[0], math.nan, device="cuda", dtype=dtype_of(torch, case.result_dtype)
            )
            kernel(*inputs, out=result)
            results[variant.word] = result
            calls[variant.word] = captured(torch, lambda k=kernel, y=result: k(*inputs, out=y))
        except (ValueError, RuntimeError) as error:
            failed[variant.word] = str(error).strip().splitlines()[0][:200]
    errors = errors_of(torch, case, inputs, results)
    times = timed(torch, calls, rounds, limit=0.5)
    usual = times[variants[0].word]
    return [
        {"call": case.key, "settings": v.word, "failed": failed[v.word]}
        if v.word in failed
        else {
            "call": case.key,
            "settings": v.word,
            "error": errors[v.word],
            "good": errors[v.word] <= roundoff_of(case),
            "ms": round(times[v.word], 6),
            "tflops": round(case.flops / times[v.word] * 1e-9, 1),
            "over_default": round(usual / times[v.word], 4),
        }
        for v in variants
    ]


def line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of the table."""
    head = f"{row['call']:24} {row['settings']:44}"
    if "failed" in row:
        return f"{head} {row['failed']}"
    over = f"over default {row['over_default']:.3f}{'' if row['good'] else '  WRONG'}"
    return f"{head} {row['ms']:8.4f} ms {row['tflops']:6.1f} TFLOP/s  {over}"


def summary_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return how many kernels were wrong, and what the best settings of each shape have over its default."""
    best = dict[str, float]()
    for row in rows:
        if row.get("good"):
            best[row["call"]] = max(best.get(row["call"], 0.0), row["over_default"])
    found: dict[str, float] = {
        "attention_settings.kernels": len(rows),
        "attention_settings.wrong": sum("failed" not in row and not row["good"] for row in rows),
    }
    if best:
        found["attention_settings.best_over_default_geomean"] = round(geomean(list(best.values())), 4)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.attention.settings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="REGEX", help="shapes such as causal/d128 that match")
    parser.add_argument("-o", "--output", default="build/attention_settings", metavar="WORK")
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--build-only", action="store_true", help="measure nothing; needs no GPU")
    stages.add_argument("--measure-only", action="store_true", help="take libraries as they are")
    parser.add_argument("--rounds", type=at_least_one, default=30)
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1)
    args = parser.parse_args()
    folder = Path(args.output)
    shapes = [case for case in SHAPES if re.search(args.only, case.key)]
    if not shapes:
        raise SystemExit(f"no shape matches '{args.only}'")
    variants = [list(variants_of(case)) for case in shapes]
    failed: dict[str, str] = {}
    if not args.measure_only:
        all_of_them = [variant for some in variants for variant in some]
        failed = build_problems(all_of_them, folder, Options("sm_90a", args.jobs, 600.0))
    if args.build_only:
        return int(bool(failed))
    torch: Any = importlib.import_module("torch")
    rows: list[dict[str, Any]] = []
    for some in variants:
        found = measured(torch, some, folder, args.rounds)
        print("\n".join(map(line, found)), flush=True)
        rows += found
    summary = summary_of(rows)
    print("".join(f"{name:48} {value:g}\n" for name, value in summary.items()), end="")
    name = "attention_settings"
    print(
        write_result(
            card(torch), name, rows, summary, extra_versions=gpu_versions(torch), module="attention.settings"
        )
    )
    return int(any("failed" in row or not row["good"] for row in rows))


if __name__ == "__main__":
    run_main(main)
