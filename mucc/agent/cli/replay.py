"""`mucc-agent replay RUNS...`: which stop rules would have kept the speedup for less."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

from mucc.cli import files
from mucc.cli.parsing import Parser, add_diagnostics, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError


@dataclass
class Arguments:
    """The parsed command line."""

    runs: list[str] = field(default_factory=list[str])
    output: str | None = None
    keep: float = 0.95
    json: bool = False
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc-agent replay`."""
    p = Parser(
        "replay",
        "Replay stop rules over stored runs: a grid of epsilon (how near to the speed of light is near\n"
        "enough), window (attempts without progress), smaller budgets, and budgets that tasks share. Shows\n"
        "what each would have kept and saved, and recommends the cheapest that keeps enough. Runs nothing.",
        usage="mucc-agent replay RUN... [-o replay.html] [--keep 0.95] [--json]",
        tool="mucc-agent",
    )
    p.add_argument("runs", nargs="*", metavar="RUN", help="folders of runs, or their run.db")
    p.add_argument("-o", dest="output", metavar="FILE", help="make a page with plots, too (.html)")
    p.add_argument(
        "--keep", type=float, metavar="SHARE", help="of the geometric mean to be kept (default: 0.95)"
    )
    p.add_argument("--json", action="store_true", help="print everything as one object")
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Replay, and recommend."""
    args = parser().parse(argv, Arguments())
    if not args.runs:
        raise usage_error("no run", "give folders of runs: mucc-agent replay runs/gemm runs/mlp")
    if not 0 < args.keep <= 1:
        raise usage_error(f"--keep is a share of the speedup, above 0 and at most 1, got {args.keep:g}")
    from mucc.agent.budget.choosing import choose
    from mucc.agent.report import replays
    from mucc.agent.report.reading import database_of, read_run

    if args.output is not None:
        files.check_output(args.output, tuple(map(database_of, args.runs)))
    runs = [read_run(path) for path in args.runs]
    sets = [traces for run in runs if (traces := replays.traces_of(run))]
    if not sets:
        names = ", ".join(map(os.path.normpath, args.runs))
        raise DiagnosticError(Diagnostic("MU7270", f"there is no attempt in {names}: nothing to replay"))
    choice = choose(sets, keep=args.keep, own=replays.policy_of(runs))
    if args.json:
        from mucc.files.json_text import json_text

        sys.stdout.write(json_text(choice.to_json(), 1))
    else:
        sys.stdout.write(replays.text(choice))
    if args.output is not None:
        page = replays.page(choice, [run.name for run in runs])
        files.write_output(args.output, page.encode("utf-8", "replace"))
    return 0
