"""`mucc explain CODE`: explain diagnostic codes, or say which schedules a library has for which calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

from mucc.cli import candidates, options
from mucc.cli.command import command
from mucc.cli.parameters import arguments, flag
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.library.manifest_json import StageJson

T = TypeVar("T")


@dataclass
class Arguments:
    """The arguments of `mucc explain`."""

    codes: list[str] = arguments(
        metavar="CODE|LIBRARY",
        help="a code such as MU3004, or just 3004; or a .so that mucc made",
        complete=candidates.words(candidates.codes),
    )
    all: bool = flag(help="explain every code, as a page in Markdown")
    json: bool = options.json("print JSON: codes with their explanations, or what a library has")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(
    Arguments,
    "Say what a diagnostic code means, or which schedules a library has. Without a code, list them all.",
    usage="[CODE... | LIBRARY.so... | --all] [--json]",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print the explanation of each code or library, or list all codes.

    Raises MU5003 for an unknown code, and MU6030 to MU6035 for a file that is no library.
    """
    from mucc.diagnostics import explain
    from mucc.diagnostics.codes import CODES

    if args.all and args.codes:
        raise usage_error("--all explains every code", "leave out the codes, or --all")
    if args.json:
        codes = args.codes or list(CODES)
        sys.stdout.write(
            json_text([_library(c) if c.endswith(".so") else _known(c, explain.as_json) for c in codes])
        )
        return 0
    if args.all:
        sys.stdout.write(explain.errors_page())
    elif not args.codes:
        sys.stdout.write(explain.listing())
    for i, code in enumerate(args.codes):
        text = _library_text(_library(code)) if code.endswith(".so") else _known(code, explain.explain)
        sys.stdout.write(("\n" if i else "") + text)
    return 0


def _known(code: str, explained: Callable[[str], T | None]) -> T:
    """Return an explanation of a code. Raises MU5003 for an unknown one."""
    from mucc.diagnostics import explain

    if (found := explained(code)) is not None:
        return found
    meant = explain.closest(code)
    helps = (f"did you mean '{meant}'?",) if meant else ("`mucc explain` lists every code",)
    raise DiagnosticError(Diagnostic("MU5003", f"there is no diagnostic code '{code}'", helps=helps))


class _Entry(TypedDict):
    """A schedule of a kernel: the calls that take it, what they have to keep to, and its stages."""

    calls: str
    promises: list[str]
    stages: list[StageJson]


class _Kernel(TypedDict):
    signature: str
    entries: list[_Entry]


class _Library(TypedDict):
    library: str
    kernels: list[_Kernel]


def _library(path: str) -> _Library:
    """Say which calls of each kernel of a library take which schedule. Raises MU6030 to MU6035."""
    from mucc.library.entries import guards_text
    from mucc.library.errors import MuccError
    from mucc.runtime.elf import read_manifest

    try:
        manifest = read_manifest(Path(path).resolve())
    except MuccError as error:
        raise DiagnosticError(Diagnostic(error.code, error.message)) from error
    kernels: list[_Kernel] = []
    for info, kernel in zip(manifest.kernels, manifest.json["kernels"], strict=True):
        ways = [entry["stages"] for entry in kernel.get("entries", ())] or [kernel["stages"]]
        calls = [guards_text(e.guards) for e in info.entries] or ["all calls"]
        needs = [[text for text, _ in e.promises] for e in info.entries] or [[]]
        entries: list[_Entry] = [
            {"calls": when, "promises": promises, "stages": stages}
            for when, promises, stages in zip(calls, needs, ways, strict=True)
        ]
        kernels.append({"signature": info.signature, "entries": entries})
    return {"library": path, "kernels": kernels}


def _library_text(library: _Library) -> str:
    lines: list[str] = []
    for kernel in library["kernels"]:
        lines.append(kernel["signature"])
        for entry in kernel["entries"]:
            lines.append(f"  {' and '.join([entry['calls'], *entry['promises']])}")
            for stage in entry["stages"]:
                shown = ", ".join(f"{k} = {stage[k]}" for k in _SHOWN if stage.get(k) is not None)
                lines.append(f"    {stage['name']}: {stage['kind']}{f', {shown}' if shown else ''}")
    return "\n".join(lines) + "\n"


_SHOWN = ("tile", "cluster", "mainloop", "stages", "scheduler")
"""The settings of a schedule that are shown, in order."""
