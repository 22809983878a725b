"""`mucc check FILE …`: everything that can be said about programs without compiling them."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucc.cli import files
from mucc.cli.parsing import DEFAULT_TARGET, Parser, add_diagnostics, add_dims, add_target, usage_error
from mucc.cli.reporting import Reporter
from mucc.diagnostics.core import DiagnosticError


@dataclass
class Arguments:
    """The parsed command line."""

    files: list[str] = field(default_factory=list[str])
    target: str = DEFAULT_TARGET
    dims: list[str] = field(default_factory=list[str])
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc check`."""
    p = Parser("check", "Report errors and warnings without compiling.", usage="mucc check FILE... [options]")
    p.add_argument("files", nargs="*", metavar="FILE", help="a .mcu file, or - for stdin")
    add_target(p)
    add_dims(p)
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Check every file, and report on all of them."""
    args = parser().parse(argv, Arguments())
    if not args.files:
        raise usage_error("no input file", "give the names of .mcu files: mucc check kernel.mcu")
    from mucc.hints import typical
    from mucc.program import compile_source

    dims = typical(args.dims)
    for path in args.files:
        try:
            source = files.read_source(path)
            compilation = compile_source(source, args.target, only_check=True, dims=dims)
            reporter.add(compilation.sink.diagnostics, source)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
    return 0
