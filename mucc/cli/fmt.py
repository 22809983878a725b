"""`mucc fmt FILE …`: format programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import flag
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.compiler.source import STDIN, decode
from mucc.diagnostics.core import DiagnosticError, ExitStatus, Source
from mucc.diagnostics.usage import usage_error
from mucc.files.json_text import json_text

DESCRIPTION = """\
Rewrite .mcu files in the one canonical layout, in place. With - for the file, stdin goes to stdout.
Exit status of --check and --diff: 1 where a file is not in that layout."""


@dataclass
class Arguments:
    """The arguments of `mucc fmt`."""

    files: list[str] = options.programs("a .mcu file, or - for stdin to stdout")
    check: bool = flag(help="name the files that would change; write nothing")
    diff: bool = flag(help="show what would change; write nothing")
    json: bool = options.json("print which files are in that layout as JSON, with --check")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="FILE... [--check [--json]] [--diff]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Format every file; files with syntax errors stay unchanged."""
    if not args.files:
        raise usage_error("no input file", "give the names of .mcu files, or - for stdin")
    if args.json and (not args.check or args.diff):
        raise usage_error("--json goes with --check alone", "`mucc fmt --check --json FILE...`")
    changed = False
    rows: list[dict[str, object]] = []
    for path in args.files:
        is_changed = None
        try:
            is_changed = _one(path, args, reporter)
        except DiagnosticError as error:
            reporter.add(error.diagnostics)
        changed |= is_changed or False
        rows.append({"file": path, "formatted": None if is_changed is None else not is_changed})
    if args.json:
        sys.stdout.write(json_text(rows))
    return ExitStatus.PROGRAM if changed and (args.check or args.diff) else ExitStatus.GOOD


def _one(path: str, args: Arguments, reporter: Reporter) -> bool | None:
    """Format one file; returns whether the text changed, None where it has syntax errors."""
    from mucc.frontend import format

    data = files.read_bytes(path)
    # An empty file is formatted already.
    source = decode(data, path) if data.strip() else Source(path, "")
    try:
        text = format(source) if data.strip() else ""
    except DiagnosticError as error:
        reporter.add(error.diagnostics, source)
        return None
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
