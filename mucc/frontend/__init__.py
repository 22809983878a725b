"""The language's front door: text to syntax tree, canonical text, and `mu` IR.

Only `lower` needs the IR library, and imports it when called: `mucc fmt` stays quick.
"""

from __future__ import annotations

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.frontend import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

__all__ = ["ast", "dump", "format", "lower", "parse"]


def parse(source: Source, sink: DiagnosticSink | None = None) -> tuple[ast.Program, DiagnosticSink]:
    """Read a program. Errors go to the sink; the tree then holds what could be read. Never raises."""
    from mucc.frontend.parser import Parser

    sink = sink or DiagnosticSink(source)
    parser = Parser(source, DiagnosticSink(source))
    program = parser.program()
    for diagnostic in parser.findings:
        sink.emit(diagnostic)
    return program, sink


def format(source: Source) -> str:
    """The canonical layout of a program, comments kept. Raises DiagnosticError on syntax errors."""
    from mucc.frontend.formatter import format_source

    return format_source(source)


def dump(program: ast.Program, source: Source) -> str:
    """The tree as indented text, one node per line with its place: what `--emit=ast` prints."""
    from mucc.frontend.dumper import dump_program

    return dump_program(program, source)


def lower(program: ast.Program, sink: DiagnosticSink) -> ModuleOp:
    """Check a program and make `mu` IR of it. Errors and warnings go to the sink.

    The module is complete only when the sink holds no error afterwards.
    """
    from mucc.frontend.irgen import lower_program

    return lower_program(program, sink)
