"""`mucc targets`: the GPUs that can be compiled for."""

from __future__ import annotations

import sys
import tomllib
from importlib.resources import files

from mucc.cli.parsing import Parser
from mucc.cli.reporting import Reporter


class Arguments:
    """The parsed command line: there is nothing to set."""


def main(argv: list[str], reporter: Reporter) -> int:
    """Print one line for each target, from the data files that describe them."""
    Parser("targets", "List the GPUs that can be compiled for.").parse(argv, Arguments())
    data = (p for p in (files("mucc.target") / "data").iterdir() if p.name.endswith(".toml"))
    for path in sorted(data, key=lambda p: p.name):
        target = tomllib.loads(path.read_text(encoding="utf-8"))
        sys.stdout.write(f"{target['name']}  {target['title']}\n")
    return 0
