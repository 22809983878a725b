"""`mucc fmt FILE …`: rewrite files in the one canonical layout."""

from __future__ import annotations

from dataclasses import dataclass, field

from mucc.cli import files
from mucc.cli.parsing import Parser, add_diagnostics, usage_error
from mucc.cli.reporting import Reporter
from mucc.compiler.source import STDIN, decode
from mucc.diagnostics.core import DiagnosticError, ExitStatus, Source

DESCRIPTION = """\
Rewrite .mcu files in the one canonical layout, in place. With - for the file, stdin goes to stdout.
Exit status of --check and --diff: 1 where a file is not in that layout."""


@dataclass
class Arguments:
    """The parsed command line."""

    files: list[str] = field(default_factory=list[str])
    check: bool = False
    diff: bool = False
    diagnostics: str = "text"
    verbose: bool = False


def parser() -> Parser:
    """The options of `mucc fmt`."""
    p = Parser("fmt", DESCRIPTION, usage="mucc fmt FILE... [--check] [--diff]")
    p.add_argument("files", nargs="*", metavar="FILE", help="a .mcu file, or - for stdin to stdout")
    p.add_argument("--check", action="store_true", help="name the files that would change; write nothing")
    p.add_argument("--diff", action="store_true", help="show what would change; write nothing")
    add_diagnostics(p)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Format every file; a file with syntax errors stays as it is."""
    args = parser().parse(argv, Arguments())
    if not args.files:
        raise usage_error("no input file", "give the names of .mcu files, or - for stdin")
    changed = False
    for path in args.files:
        try:
            changed |= _one(path, args, reporter)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
    return ExitStatus.PROGRAM if changed and (args.check or args.diff) else ExitStatus.GOOD


def _one(path: str, args: Arguments, reporter: Reporter) -> bool:
    """Format one file; whether its layout was another."""
    from mucc.frontend import format

    data = files.read_bytes(path)
    # An empty file is in canonical layout: there is nothing to lay out.
    source = decode(data, path) if data.strip() else Source(path, "")
    try:
        text = format(source) if data.strip() else ""
    except DiagnosticError as error:
        reporter.add(error.diagnostics, source)
        return False
    new = text.encode()
    changed = new != data
    if args.diff and changed:
        files.write_stdout(_diff(source, text).encode())
    if args.check and changed:
        reporter.line(f"{source.name}: would be reformatted")
    if args.check or args.diff:
        return changed
    if path == STDIN:
        files.write_stdout(new)
    elif changed:
        files.write_output(path, new)
        reporter.line(f"{path}: reformatted")
    return changed


def _diff(source: Source, text: str) -> str:
    from difflib import unified_diff

    old, new = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
    lines = unified_diff(old, new, source.name, f"{source.name} (canonical)")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
