"""`mucc explain CODE`: explain diagnostic codes, or say which schedules a library has for which calls."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import arguments, flag
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.usage import usage_error


@dataclass
class Arguments:
    """The arguments of `mucc explain`."""

    codes: list[str] = arguments(
        metavar="CODE|LIBRARY",
        help="a code such as MU3004, or just 3004; or a .so that mucc made",
        complete=candidates.words(candidates.codes),
    )
    all: bool = flag(help="explain every code, as a page in Markdown")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(
    Arguments,
    "Say what a diagnostic code means, or which schedules a library has. Without a code, list them all.",
    usage="[CODE... | LIBRARY.so... | --all]",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the explanation of each code or library, or list all codes.

    Raises MU5003 for an unknown code, and MU6030 to MU6035 for a file that is no library.
    """
    from mucc.diagnostics import explain

    if args.all and args.codes:
        raise usage_error("--all explains every code", "leave out the codes, or --all")
    if args.all:
        sys.stdout.write(explain.errors_page())
    elif not args.codes:
        sys.stdout.write(explain.listing())
    for i, code in enumerate(args.codes):
        if code.endswith(".so"):
            sys.stdout.write(("\n" if i else "") + _library_text(code))
            continue
        if (text := explain.explain(code)) is None:
            meant = explain.closest(code)
            helps = (f"did you mean '{meant}'?",) if meant else ("`mucc explain` lists every code",)
            raise DiagnosticError(Diagnostic("MU5003", f"there is no diagnostic code '{code}'", helps=helps))
        sys.stdout.write(("\n" if i else "") + text)
    return 0


def _library_text(path: str) -> str:
    """Say which calls of each kernel of a library take which schedule."""
    from mucc.library.entries import guards_text
    from mucc.library.errors import MuccError
    from mucc.runtime.elf import read_manifest

    try:
        manifest = read_manifest(Path(path).resolve())
    except MuccError as error:
        raise DiagnosticError(Diagnostic(error.code, error.message)) from error
    lines: list[str] = []
    for info, kernel in zip(manifest.kernels, manifest.json["kernels"], strict=True):
        lines.append(info.signature)
        ways = kernel.get("entries") or [{"stages": kernel["stages"]}]
        calls = [guards_text(e.guards) for e in info.entries] or ["all calls"]
        needs = [[text for text, _ in e.promises] for e in info.entries] or [[]]
        for way, when, conditions in zip(ways, calls, needs, strict=True):
            lines.append(f"  {' and '.join([when, *conditions])}")
            for stage in way["stages"]:
                shown = ", ".join(f"{k} = {stage[k]}" for k in _SHOWN if stage.get(k) is not None)
                lines.append(f"    {stage['name']}: {stage['kind']}{f', {shown}' if shown else ''}")
    return "\n".join(lines) + "\n"


_SHOWN = ("tile", "cluster", "mainloop", "stages", "scheduler")
"""The settings of a schedule that are shown, in order."""
