"""`mucc-agent guide`: one page for agents that shell out."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.api.commands import Reporter, command


@dataclass
class Arguments:
    """The command line, which is empty."""


@command(
    Arguments,
    "Print one page for agents that shell out: from a PyTorch module to an audited kernel.",
    usage="",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the page."""
    from mucc.agent.guide import text

    sys.stdout.write(text())
    return 0
