"""`mucc-agent guide`: one page for agents that shell out."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.cli.parsing import Parser
from mucc.cli.reporting import Reporter


@dataclass
class Arguments:
    """The parsed command line, which is empty."""


def parser() -> Parser:
    """The options of `mucc-agent guide`: none but --help."""
    return Parser(
        "guide",
        "Print one page for agents that shell out: from a PyTorch module to an audited kernel.",
        tool="mucc-agent",
    )


def main(argv: list[str], reporter: Reporter) -> int:
    """Print the page."""
    parser().parse(argv, Arguments())
    from mucc.agent.guide import text

    sys.stdout.write(text())
    return 0
