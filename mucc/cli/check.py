"""`mucc check FILE …`: run all passes to report errors and warnings, without emitting or compiling C++."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import flag
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

if TYPE_CHECKING:
    from mucc.diagnostics.json_form import CheckJson
    from mucc.library.dims import Size


@dataclass
class Arguments:
    """The arguments of `mucc check`."""

    files: list[str] = options.programs("a .mcu file, or - for stdin")
    language: bool = flag(help="check the language only, whatever kernels there are")
    target: str = options.target()
    dims: list[str] = options.typical_dims()
    json: bool = options.json("print the errors and warnings of each file as JSON, on stdout")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, "Report errors and warnings without compiling.", usage="FILE... [options]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Check every file, and report errors and warnings of all."""
    if not args.files:
        raise usage_error("no input file", "give the names of .mcu files: mucc check kernel.mcu")
    if args.language and args.dims:
        raise usage_error("--language looks at no schedule, for which --dims are", "leave out one of them")
    from mucc.compiler.typical_dims import sizes_of

    sizes = sizes_of(args.dims)
    if args.json:
        return _as_json(args, sizes)
    for path in args.files:
        try:
            _check(files.read_source(path), args, sizes, reporter)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
    return 0


def _as_json(args: Arguments, sizes: tuple[Size, ...]) -> int:
    """Print the errors and warnings of each file, and return the exit status. Raises for unreadable files."""
    from mucc.diagnostics.render import to_json

    sources = [files.read_source(path) for path in args.files]
    rows: list[CheckJson] = []
    status = 0
    for path, source in zip(args.files, sources, strict=True):
        own = Reporter(json=True)
        _check(source, args, sizes, own)
        rows.append({"file": path, "diagnostics": [to_json(d, s) for d, s in own.seen]})
        status = max(status, own.status)
    sys.stdout.write(json_text(rows))
    return status


def _check(source: Source, args: Arguments, sizes: tuple[Size, ...], reporter: Reporter) -> None:
    """Report the errors and warnings of a program."""
    try:
        reporter.add(_warnings(source, args, sizes), source)
    except DiagnosticError as error:
        reporter.add(error.diagnostics)


def _warnings(source: Source, args: Arguments, sizes: tuple[Size, ...]) -> Sequence[Diagnostic]:
    """Check a program and return its warnings. Raises DiagnosticError for errors."""
    from mucc.compiler import program

    if args.language:
        return program.check_language(source)
    return program.compile_source(source, args.target, only_check=True, sizes=sizes).sink.diagnostics
