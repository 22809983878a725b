"""`mucc-agent mcp`: mucc's commands as tools of the Model Context Protocol, on stdin and stdout."""

from __future__ import annotations

from dataclasses import dataclass

from mucc.api.commands import Reporter, candidates, command, option, options
from mucc.api.diagnostics import usage_error

DESCRIPTION = """\
Serve mucc's commands as tools of the Model Context Protocol on stdin and stdout: compile, check,
explain, sol, run, tune, audit, profile, optimize, report, replay. Ends with its client."""


@dataclass
class Arguments:
    """The command line."""

    root: str = option(
        ".", metavar="FOLDER", help="where files lie that tools may name", complete=candidates.folders()
    )
    time_limit: float = options.time_limit(900.0, "seconds for each call")
    jobs: int = option(2, "-j", "--jobs", metavar="N", help="calls that run at a time")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="[--root FOLDER] [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Serve until the client leaves."""
    options.check_time_limit(args.time_limit)
    if args.jobs < 1:
        raise usage_error("--jobs needs a number above 0")
    from mucc.agent.propose.llm.connection import package

    package("mcp")
    from mucc.agent.mcp.server import Limits, serve

    serve(args.root, Limits(args.time_limit, args.jobs))
    return 0
