"""`mucc-agent report RUN`: what a run did, as a page, as text or as JSON."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mucc.api import files
from mucc.api.commands import Reporter, argument, candidates, command, flag, options
from mucc.api.diagnostics import usage_error

DEFAULT = "report.html"


DESCRIPTION = """\
Show what a run did: speedups over the baselines, every attempt with its change and verdict, how
the times fell, where time went. Makes one HTML page that needs nothing else. The run may still go
on, or may have been killed."""


@dataclass
class Arguments:
    """The command line."""

    run: str | None = argument(
        None, metavar="RUN", help="the folder of a run, or its run.db", complete=candidates.files(".db")
    )
    output: str | None = options.output("where to put it (default: report.html in the run's folder)", "FILE")
    text: bool = flag(help="print the table and the summary")
    json: bool = options.json("print everything that programs want as one object")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="RUN [-o report.html] [--text | --json]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Make one report."""
    if args.run is None:
        raise usage_error("no run", "give the folder of a run: mucc-agent report runs/mlp")
    if args.json and args.text:
        raise usage_error("--json and --text exclude each other")
    from mucc.agent.report.reading import database_of, read_run

    if args.output is not None:
        files.check_output(args.output, (database_of(args.run),))
    run = read_run(args.run)
    if args.json:
        from mucc.agent.report.plain import as_json
        from mucc.api.files import json_text

        _put(args.output, json_text(as_json(run), 1))
    elif args.text:
        from mucc.agent.report import text

        if args.output is None:
            text.write(run, sys.stdout)
        else:
            _put(args.output, text.text(run))
    else:
        from mucc.agent.report.page import page

        output = args.output or os.path.join(os.path.dirname(run.path), DEFAULT)
        files.write_output(output, page(run).encode("utf-8", "replace"))
        sys.stdout.write(f"{output}\n")
    return 0


def _put(output: str | None, text: str) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        files.write_output(output, text.encode("utf-8", "replace"))
