"""`mucc explain CODE`: explain diagnostic codes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.cli import candidates
from mucc.cli.command import command
from mucc.cli.parameters import arguments, flag
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.usage import usage_error


@dataclass
class Arguments:
    """The arguments of `mucc explain`."""

    codes: list[str] = arguments(
        metavar="CODE", help="such as MU3004, or just 3004", complete=candidates.words(candidates.codes)
    )
    all: bool = flag(help="explain every code, as a page in Markdown")


@command(
    Arguments, "Say what a diagnostic code means. Without a code, list them all.", usage="[CODE... | --all]"
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the explanation of each code, or list all codes. Raises MU5003 for an unknown code."""
    from mucc.diagnostics import explain

    if args.all and args.codes:
        raise usage_error("--all explains every code", "leave out the codes, or --all")
    if args.all:
        sys.stdout.write(explain.errors_page())
    elif not args.codes:
        sys.stdout.write(explain.listing())
    for i, code in enumerate(args.codes):
        if (text := explain.explain(code)) is None:
            meant = explain.closest(code)
            helps = (f"did you mean '{meant}'?",) if meant else ("`mucc explain` lists every code",)
            raise DiagnosticError(Diagnostic("MU5003", f"there is no diagnostic code '{code}'", helps=helps))
        sys.stdout.write(("\n" if i else "") + text)
    return 0
