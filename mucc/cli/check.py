"""`mucc check FILE …`: what a build would refuse, found by all passes, without C++ and its compilers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mucc.cli import files
from mucc.cli.parsing import DEFAULT_TARGET, Parser, add_diagnostics, add_dims, add_target, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source


@dataclass
class Arguments:
    """The parsed command line."""

    files: list[str] = field(default_factory=list[str])
    language: bool = False
    target: str = DEFAULT_TARGET
    dims: list[str] = field(default_factory=list[str])
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc check`."""
    p = Parser("check", "Report errors and warnings without compiling.", usage="mucc check FILE... [options]")
    p.add_argument("files", nargs="*", metavar="FILE", help="a .mcu file, or - for stdin")
    p.add_argument(
        "--language",
        action="store_true",
        help="check the language only, whatever kernels there are",
    )
    add_target(p)
    add_dims(p)
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Check every file, and report on all of them."""
    args = parser().parse(argv, Arguments())
    if not args.files:
        raise usage_error("no input file", "give the names of .mcu files: mucc check kernel.mcu")
    if args.language and args.dims:
        raise usage_error("--language looks at no schedule, for which --dims are", "leave out one of them")
    from mucc.compiler.typical_dims import typical

    dims = typical(args.dims)
    for path in args.files:
        try:
            source = files.read_source(path)
            reporter.add(_found(source, args, dims), source)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
    return 0


def _found(source: Source, args: Arguments, dims: Mapping[str, int]) -> Sequence[Diagnostic]:
    """The warnings about a program that can be built. Raises DiagnosticError for one that cannot."""
    from mucc.compiler import program

    if args.language:
        return program.check_language(source)
    return program.compile_source(source, args.target, only_check=True, dims=dims).sink.diagnostics
