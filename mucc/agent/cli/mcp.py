"""`mucc-agent mcp`: mucc's commands as tools of the Model Context Protocol, on stdin and stdout."""

from __future__ import annotations

from dataclasses import dataclass

from mucc.cli.parsing import Parser, add_diagnostics, usage_error
from mucc.cli.reporting import Reporter


@dataclass
class Arguments:
    """The parsed command line."""

    root: str = "."
    time_limit: float = 900.0
    jobs: int = 2
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc-agent mcp`."""
    p = Parser(
        "mcp",
        "Serve mucc's commands as tools of the Model Context Protocol on stdin and stdout: compile, check,\n"
        "explain, sol, run, tune, audit. Ends with its client.",
        usage="mucc-agent mcp [--root FOLDER] [options]",
        tool="mucc-agent",
    )
    p.add_argument("--root", metavar="FOLDER", help="where files lie that tools may name (default: here)")
    p.add_argument("--time-limit", type=float, metavar="S", help="seconds for each call (default: 900)")
    p.add_argument("-j", "--jobs", type=int, metavar="N", help="calls that run at a time (default: 2)")
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Serve until the client leaves."""
    args = parser().parse(argv, Arguments())
    if not args.time_limit > 0 or args.jobs < 1:
        raise usage_error("--time-limit and --jobs are above 0")
    from mucc.agent.propose.llm.connection import package

    package("mcp")
    from mucc.agent.mcp.server import Limits, serve

    serve(args.root, Limits(args.time_limit, args.jobs))
    return 0
