"""`mucc new NAME`: begin a project."""

from __future__ import annotations

import keyword
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import argument, option
from mucc.cli.reporting import Reporter
from mucc.compiler import files
from mucc.diagnostics.core import ExitStatus
from mucc.diagnostics.usage import usage_error

DESCRIPTION = """\
Begin a project: a folder with a kernel, tests that compare it with the interpreter and with PyTorch, a
benchmark, and a workflow of continuous integration. Nothing that exists is overwritten."""

LONGEST = 100
"""The most characters of a project's name: names of its files stay within the limit of file systems."""


@dataclass
class Arguments:
    """The arguments of `mucc new`."""

    name: str | None = argument(None, metavar="NAME", help="the name of the kernel, and of the folder")
    folder: str | None = option(None, metavar="FOLDER", help="the folder to make (default: NAME)")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(Arguments, DESCRIPTION, usage="NAME [--folder FOLDER]")
def main(args: Arguments, reporter: Reporter) -> int:
    """Write the files of a project. Raises MU5001 for a name that is none, or a folder that exists."""
    from mucc.cli.project import files as texts

    if not args.name:
        raise usage_error("which name?", "give the name of a kernel: mucc new linear_gelu")
    _check_name(args.name)
    folder = Path(args.folder if args.folder is not None else args.name)
    if args.folder == "" or os.path.lexists(folder):
        raise usage_error(f"'{folder}' exists already", "name another folder: --folder FOLDER")
    written = False
    try:
        for path, text in texts(args.name).items():
            _write(folder / path, text)
        written = True
    finally:
        if not written:
            # Half a project would be in the way of the next try.
            shutil.rmtree(folder, ignore_errors=True)
    reporter.line(f"{folder}: a project with the kernel {args.name}; README.md says what to run")
    return ExitStatus.GOOD


def _write(place: Path, text: str) -> None:
    """Write a file, and make its folder. Raises MU5001 where that cannot be made, MU5014 for the file."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is none"
        raise usage_error(f"cannot make '{place.parent}': {reason}") from None
    files.write_output(str(place), text.encode())


def _check_name(name: str) -> None:
    """Raise MU5001 for a name that no kernel, or no file, can have."""
    from mucc.frontend.lexer import KEYWORDS, is_name

    if name in KEYWORDS:
        raise usage_error(
            f"'{name}' is a word of the language, so no name of a kernel", f"as in: mucc new my_{name}"
        )
    if keyword.iskeyword(name):
        # The tests of the project call the kernel by its name.
        raise usage_error(
            f"'{name}' is a word of Python, by which no test calls it", f"as in: mucc new my_{name}"
        )
    if not name.isascii() or not is_name(name):
        raise usage_error(f"'{name}' is no name of a kernel", "letters, digits and underscores: linear_gelu")
    if len(name) > LONGEST:
        raise usage_error(f"a name of {len(name)} characters is too long: {LONGEST} at most")
