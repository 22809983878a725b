"""`mucc-agent replay RUNS...`: which stop rules would have kept the speedup for less."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mucc.api import files
from mucc.api.commands import Reporter, arguments, candidates, command, option, options
from mucc.api.diagnostics import Diagnostic, DiagnosticError, usage_error

DESCRIPTION = """\
Replay stop rules over stored runs: a grid of epsilon (how near to the speed of light is near
enough), window (attempts without progress), smaller budgets, and budgets that tasks share. Shows
what each would have kept and saved, and recommends the cheapest that keeps enough. Runs nothing."""


@dataclass
class Arguments:
    """The command line."""

    runs: list[str] = arguments(
        metavar="RUN", help="folders of runs, or their run.db", complete=candidates.files(".db")
    )
    output: str | None = options.output("make a page with plots, too (.html)", "FILE")
    keep: float = option(0.95, metavar="SHARE", help="of the geometric mean to be kept")
    json: bool = options.json("print everything as one object")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="RUN... [-o replay.html] [--keep 0.95] [--json]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Replay, and recommend."""
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
        from mucc.api.files import json_text

        sys.stdout.write(json_text(choice.to_json(), 1))
    else:
        sys.stdout.write(replays.text(choice))
    if args.output is not None:
        page = replays.page(choice, [run.name for run in runs])
        files.write_output(args.output, page.encode("utf-8", "replace"))
    return 0
