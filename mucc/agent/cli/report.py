"""`mucc-agent report RUN`: what a run did, as a page, as text or as JSON."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mucc.cli import files
from mucc.cli.parsing import Parser, add_diagnostics, usage_error
from mucc.cli.reporting import Reporter

DEFAULT = "report.html"


@dataclass
class Arguments:
    """The parsed command line."""

    run: str | None = None
    output: str | None = None
    json: bool = False
    text: bool = False
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc-agent report`."""
    p = Parser(
        "report",
        "Show what a run did: speedups over the baselines, every attempt with its change and verdict, how\n"
        "the times fell, where time went. Makes one HTML page that needs nothing else. The run may still go\n"
        "on, or may have been killed.",
        usage="mucc-agent report RUN [-o report.html] [--text | --json]",
        tool="mucc-agent",
    )
    p.add_argument("run", nargs="?", metavar="RUN", help="the folder of a run, or its run.db")
    p.add_argument(
        "-o", dest="output", metavar="FILE", help="where to put it (default: report.html in the run's folder)"
    )
    p.add_argument("--text", action="store_true", help="print the table and the summary")
    p.add_argument("--json", action="store_true", help="print everything that programs want as one object")
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Make one report."""
    args = parser().parse(argv, Arguments())
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
        from mucc.files.json_text import json_text

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
