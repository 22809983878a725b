"""KernelBench-format problem files, imported, compiled, judged and timed against PyTorch.

    python -m bench.kernelbench FOLDER|FILE... [-o WORK] [options]

Stages: import (each file becomes a program and a driver; its bound; the interpreter against PyTorch on the
CPU), build (programs become libraries), measure (the audit, and times against PyTorch's defaults, TF32 and
torch.compile). A run that was ended at any point goes on where it was. See docs/kernelbench.md.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.common import at_least_one, run_main
from bench.kernelbench.options import Options
from bench.kernelbench.run import Run
from mucc.agent.importing.problems import find_problems
from mucc.diagnostics.core import DiagnosticError
from mucc.process.interrupts import Terminated


def parser() -> argparse.ArgumentParser:
    """The options."""
    p = argparse.ArgumentParser(
        prog="python -m bench.kernelbench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("paths", nargs="+", metavar="FOLDER|FILE", help="problem files, and folders of them")
    p.add_argument(
        "-o", "--output", default="build/kernelbench", metavar="WORK", help="folder for all that is made"
    )
    p.add_argument("--only", default="", metavar="REGEX", help="only problems such as level2/7 that match")
    p.add_argument(
        "--device", choices=("auto", "cuda", "cpu"), default="auto", help="cpu: nothing is measured"
    )
    p.add_argument("--card", default="h200", help="what bounds are for (default: h200)")
    p.add_argument("--target", default="sm_90a", help="what kernels are built for (default: sm_90a)")
    p.add_argument(
        "--compute", choices=("f32", "tf32", "tf32x3"), help="format of f32 products (default: as PyTorch's)"
    )
    stages = p.add_mutually_exclusive_group()
    stages.add_argument("--import-only", action="store_true", help="stop before anything is built")
    stages.add_argument("--build-only", action="store_true", help="stop before anything is measured")
    stages.add_argument("--measure-only", action="store_true", help="measure what another machine has built")
    stages.add_argument("--report-only", action="store_true", help="only show what there is")
    p.add_argument("--no-check", dest="check", action="store_false", help="no comparison on the CPU")
    p.add_argument(
        "--no-audit", dest="audit", action="store_false", help="no audit: times of right results count"
    )
    p.add_argument("--again", action="store_true", help="do over what is done")
    p.add_argument("-j", "--jobs", type=at_least_one, default=1, help="children, and compilers, at once")
    p.add_argument(
        "--time-limit", type=float, default=300.0, metavar="S", help="for a problem in a stage (300)"
    )
    p.add_argument(
        "--memory-limit", type=int, default=8192, metavar="MIB", help="for a problem, beside torch (8192)"
    )
    p.add_argument("--runs", type=int, default=30, help="timed runs of each contender at the most (30)")
    p.add_argument("--record", metavar="NAME", help="also write bench/results/<card>/NAME.{json,txt,png}")
    return p


def main(argv: list[str] | None = None) -> int:
    """Run the stages that were asked for, and report."""
    args = parser().parse_args(argv)
    if args.jobs < 1 or args.time_limit <= 0 or args.memory_limit <= 0 or args.runs < 1:
        parser().error("jobs, limits and runs are above 0")
    device = "cpu" if args.device == "auto" and not _has_gpu() else args.device.replace("auto", "cuda")
    options = Options(
        Path(args.output),
        device,
        args.card,
        args.target,
        args.compute,
        args.check,
        args.audit,
        args.jobs,
        args.time_limit,
        args.memory_limit,
        args.runs,
    )
    try:
        run = Run(options, find_problems(args.paths, args.only), again=args.again)
        if not (args.measure_only or args.report_only):
            run.import_all()
            if (device == "cuda" or args.build_only) and not args.import_only:
                run.build_all()
        if device == "cuda" and not (args.import_only or args.build_only or args.report_only):
            run.measure_all()
        elif device == "cpu" and not args.build_only:
            print("no GPU is used: programs are imported and checked; nothing is built or measured")
        run.report(args.record)
    except DiagnosticError as error:
        print(f"bench.kernelbench: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Terminated):
        print(f"stopped; the same command goes on where this was: {options.folder}", file=sys.stderr)
        raise
    return 0


def _has_gpu() -> bool:
    """Whether torch sees a GPU, asked without making a context."""
    torch: Any = import_module("torch")
    return torch.cuda.device_count() > 0


if __name__ == "__main__":
    run_main(main)
