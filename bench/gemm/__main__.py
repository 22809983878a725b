"""Contractions of mucc against PyTorch, on one GPU.

    python -m bench.gemm [--cases bf16,…] [--groups plain,…] [--budget N] [--folder DIR] [--compile CASES]
    python -m bench.gemm --redraw h200

Plans schedules for every case and shape by the model, builds a library for each (`mucc.tune`), measures
them, and then times, on the same random inputs in one run: the schedule that the compiler chooses by
itself, the fastest that was measured, PyTorch's own product (cuBLASLt), and torch.compile with max-autotune
for the cases of `--compile`. The L2 cache is flushed before each call, contenders take turns, figures are
medians of device events around CUDA graphs. A folder that is named keeps libraries and measurements; a run
that was cut short goes on where it stopped. Writes results/<card>/gemm.json, gemm.txt and gemm.png; rows of
cases that are not measured this time stay, each with the commit that it was measured at.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import sys
import tempfile
from functools import partial
from typing import Any

from bench.common import RESULTS, commit, run_main, write_result
from bench.gemm import summary
from bench.gemm.cases import CASES, Case
from bench.gemm.libraries import Found, known_plan, libraries, plan_of
from bench.gemm.shapes import Shape
from bench.timing import card, gpu_versions

BUDGETS = {"plain": 12, "f32": 5, "odd": 4, "skinny": 8, "mixed": 6, "sparse": 5, "fused": 5}
"""Skeletons for each case, by group; all shapes of a case share them."""


def selected(cases: str, groups: str) -> list[Case]:
    """The cases by name or by group; all where neither is given."""
    names, kinds = [set(filter(None, text.split(","))) for text in (cases, groups)]
    if unknown := names - set(CASES):
        raise SystemExit(f"no case '{min(unknown)}': there are {', '.join(CASES)}")
    if not names and not kinds:
        return list(CASES.values())
    return [c for c in CASES.values() if c.name in names or c.group in kinds]


def measure(
    torch: Any, case: Case, shape: Shape, found: Found, rounds: int, compiled: bool
) -> dict[str, Any]:
    """One row: errors and times of all contenders."""
    import mucc
    from bench.gemm.measure import captured, error, times

    tensors = case.tensors(torch, shape)
    inputs = [v for name, v in tensors.items() if not name.startswith("_")]
    calls: dict[str, Any] = {}
    ours = {"tuned": found.tuned, **({"default": found.default} if found.default else {})}
    for name, library in ours.items():
        kernel = mucc.load(library.path)[case.name]
        calls[name] = lambda kernel=kernel: kernel(*inputs)
    torch.backends.cuda.matmul.allow_tf32 = case.tf32
    if case.fits(shape):
        calls["eager"] = lambda: case.eager(torch, tensors)
        if compiled:

            def plain(given: dict[str, Any]) -> Any:
                return case.eager(torch, given)

            # Cases share the code of `plain`: without a reset, dynamo gives up after eight and runs eagerly.
            torch._dynamo.reset()
            function = torch.compile(plain, mode="max-autotune-no-cudagraphs", dynamic=False)
            calls["compile"] = lambda: function(tensors)
    for name, other in case.others:
        call = partial(other, torch, tensors)
        try:
            captured(torch, call)
        except (RuntimeError, NotImplementedError) as problem:
            print(f"{case.name} {shape.name}, {name}: {str(problem).splitlines()[0]}", file=sys.stderr)
        else:
            calls[name] = call
    exact = case.exact(torch, tensors)
    errors = {name: error(torch, call(), exact) for name, call in calls.items()}
    del exact
    if wrong := [n for n in ours if not errors[n] <= case.tolerance]:
        raise ArithmeticError(f"{wrong[0]} is off by {errors[wrong[0]]:.2g}")
    ms = times(torch, calls, rounds)
    return {
        "case": case.name,
        "group": case.group,
        "rate": case.rate,
        "shape": shape.name,
        "source": shape.source,
        "flop": shape.flop * case.work,
        "bytes": shape.bytes(*case.bytes),
        "error": errors.get("tuned"),
        **{f"{name}_ms": value for name, value in ms.items()},
        **{f"{name}_schedule": library.schedule for name, library in ours.items()},
        "measured": found.measured,
    }


def ceilings(torch: Any, rates: list[str]) -> dict[str, float]:
    """Operations per second that PyTorch's own products reach, the best of several large sizes."""
    from bench.gemm.measure import times

    best: dict[str, float] = {}
    for rate in rates:
        case = CASES[rate]
        torch.backends.cuda.matmul.allow_tf32 = case.tf32
        for size in (4096, 8192, 12288):
            shape = Shape("ceiling", size, size, size)
            tensors = case.tensors(torch, shape)
            ms = times(torch, {"library": lambda c=case, t=tensors: c.eager(torch, t)}, 20)["library"]
            best[rate] = max(best.get(rate, 0.0), shape.flop / ms * 1e3)
    return best


def earlier(name: str) -> dict[str, Any]:
    """The result that is there already."""
    path = RESULTS / name / "gemm.json"
    return json.loads(path.read_text()) if path.exists() else {"rows": [], "summary": {}}


def draw(name: str) -> None:
    """The table and the plot of a result."""
    result = earlier(name)
    (RESULTS / name / "gemm.txt").write_text(summary.table(result["rows"]) + "\n")
    try:
        summary.plot(result, RESULTS / name / "gemm.png")
    except ImportError:
        print("no plot: matplotlib is not installed (pip install mucc[bench])", file=sys.stderr)


def run(args: argparse.Namespace) -> None:
    """Plan, build, tune, and measure everybody."""
    from mucc.measure.tune.folder import Folder
    from mucc.tune import build
    from mucc.tune import measure as tune

    cases = selected(args.cases, args.groups)
    with tempfile.TemporaryDirectory(prefix="mucc-gemm-") as scratch:
        folder = args.folder or scratch
        if args.plan_only:
            Folder(folder).write_plan(plan_of(cases, args.budget or BUDGETS))
            return
        if not args.measured:
            build(known_plan(folder, cases) or plan_of(cases, args.budget or BUDGETS), folder)
        if args.build_only:
            return
        if not args.measured:
            tune(folder, keep_in_database=False)
        if args.tune_only:
            return
        torch: Any = importlib.import_module("torch")
        from bench.gemm.measure import copy_bandwidth

        found = libraries(folder, cases)
        rows: list[dict[str, Any]] = []
        bandwidth = copy_bandwidth(torch)
        rates = ceilings(torch, list(dict.fromkeys(c.rate for c in cases)))
        for case in cases:
            compiled = case.name in args.compile.split(",") or case.group in args.compile.split(",")
            for shape in case.shapes:
                try:
                    rows.append(
                        measure(torch, case, shape, found[case.name, shape.name], args.rounds, compiled)
                    )
                    print(summary.table(rows[-1:]).splitlines()[-1], flush=True)
                except KeyError:
                    print(f"{case.name} {shape.name}: no library was right", file=sys.stderr)
                except ArithmeticError as problem:
                    print(f"{case.name} {shape.name}: {problem}", file=sys.stderr)
    name = card(torch)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    origin = {"commit": commit(), "date": now}
    rows = [row | origin for row in rows]
    before = earlier(name)
    mine = {c.name for c in cases}
    rows = [*(r for r in before["rows"] if r["case"] not in mine), *rows]
    old = {k.split(".")[1]: v for k, v in before["summary"].items() if k.endswith(".ceiling_flops")}
    figures = summary.figures(rows, old | rates, bandwidth)
    print(write_result(name, "gemm", rows, figures, extra_versions=gpu_versions(torch)))
    draw(name)
    for figure, value in figures.items():
        print(f"{figure:<50} {value:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default="", help=f"comma-separated: {', '.join(CASES)}")
    parser.add_argument("--groups", default="", help=f"comma-separated: {', '.join(BUDGETS)}")
    parser.add_argument("--budget", type=int, help="skeletons to build for each case")
    parser.add_argument("--plan-only", action="store_true", help="stop when the plan is there")
    parser.add_argument("--folder", help="where libraries and measurements are kept")
    parser.add_argument("--build-only", action="store_true", help="stop when the libraries are there")
    parser.add_argument("--tune-only", action="store_true", help="stop when all schedules are measured")
    parser.add_argument(
        "--measured", action="store_true", help="take schedules from the folder as they were measured"
    )
    parser.add_argument("--compile", default="fused", help="cases to time torch.compile for")
    parser.add_argument("--rounds", type=int, default=40, help="turns of the contenders")
    parser.add_argument(
        "--redraw", metavar="CARD", help="only the table and the plot of a result that is there"
    )
    args = parser.parse_args()
    if args.redraw:
        draw(args.redraw)
    else:
        run(args)


if __name__ == "__main__":
    run_main(main)
