"""The frontend: parse `.mcu` text to an AST, format it, and lower it to `mu` IR.

Only `lower` imports xDSL, when it is called, so that `mucc fmt` starts fast.
"""

from __future__ import annotations

from mucc.diagnostics.core import DiagnosticSink, Source
from mucc.frontend import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

__all__ = ["ast", "dump", "format", "lower", "parse"]


def parse(source: Source, sink: DiagnosticSink | None = None) -> tuple[ast.Program, DiagnosticSink]:
    """Parse a program. Errors go to the sink, and the AST then has what could be parsed. Never raises."""
    from mucc.frontend.parser import Parser

    sink = sink or DiagnosticSink(source)
    parser = Parser(source, DiagnosticSink(source))
    program = parser.program()
    for diagnostic in parser.findings:
        sink.emit(diagnostic)
    return program, sink


def format(source: Source) -> str:
    """Format a program canonically, with its comments. Raises DiagnosticError on syntax errors."""
    from mucc.frontend.formatter import format_source

    return format_source(source)


def dump(program: ast.Program, source: Source) -> str:
    """Print the AST as `--emit=ast` does: indented text, one node per line with its source position."""
    from mucc.frontend.dumper import dump_program

    return dump_program(program, source)


def lower(program: ast.Program, sink: DiagnosticSink) -> ModuleOp:
    """Check a program and lower it to `mu` IR. Errors and warnings go to the sink.

    The module is complete only if the sink has no errors afterwards.
    """
    from mucc.frontend.irgen import lower_program

    return lower_program(program, sink)
