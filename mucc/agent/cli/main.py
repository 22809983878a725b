"""The entry point of `mucc-agent`."""

from __future__ import annotations

from typing import NoReturn

from mucc.api import commands
from mucc.api.commands import Entry, Tool

HELP = """\
mucc-agent judges and improves kernels that replace PyTorch modules.

usage: mucc-agent COMMAND [arguments]

commands:
{commands}

`mucc-agent COMMAND --help` lists the options of a command.
Exit status: 0 good, 5 rejected, 6 inconclusive; 1 errors in a problem, 2 wrong usage,
3 environment, 4 a defect.
"""

COMMANDS: dict[str, Entry] = {
    "audit": Entry("mucc.agent.cli.audit", "decide whether a solution counts as a replacement of a problem"),
    "optimize": Entry("mucc.agent.cli.optimize", "make verified, faster kernels for PyTorch problems"),
    "report": Entry("mucc.agent.cli.report", "show what a run did: an HTML page, a table, or JSON"),
    "profile": Entry("mucc.agent.cli.profile", "say what limits a program, and what to change in it"),
    "replay": Entry("mucc.agent.cli.replay", "find stop rules that would have kept the speedup for less"),
    "mcp": Entry("mucc.agent.cli.mcp", "serve mucc's commands as tools of the Model Context Protocol"),
    "guide": Entry("mucc.agent.cli.guide", "print one page for agents that shell out"),
    "completion": Entry("mucc.cli.completion", "print a script that completes command lines in a shell"),
}

TOOL = Tool("mucc-agent", HELP, COMMANDS)


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return the exit status."""
    return commands.main(argv, TOOL)


def entry() -> NoReturn:
    """Run the console script."""
    commands.entry(TOOL)
