"""`mucc targets`: the GPUs that can be compiled for, and what contractions have on each."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from mucc.cli.parsing import Parser
from mucc.cli.reporting import Reporter
from mucc.target import get_target, target_names
from mucc.target.base import Target


class Arguments:
    """The parsed command line: there is nothing to set."""


def main(argv: list[str], reporter: Reporter) -> int:
    """Print each target with its mainloops, the formats that they multiply in, the schedulers they take."""
    Parser("targets", "List the GPUs that can be compiled for.").parse(argv, Arguments())
    for name in sorted(target_names(), key=_number):
        target = get_target(name)
        sys.stdout.write("\n".join([f"{name}  {target.facts.title}", *_families(target)]) + "\n")
    return 0


def _number(name: str) -> int:
    return int(name.removeprefix("sm_").rstrip("af"))


def _families(target: Target) -> Iterator[str]:
    computes = target.facts.multiprocessor.computes
    for family in target.families:
        formats = " ".join(c for c in computes if c in family.computes)
        more = "; sparse operands" if family.takes_sparse else ""
        yield f"    {', '.join(family.mainloops)}: {formats}; {', '.join(family.schedulers)}{more}"
