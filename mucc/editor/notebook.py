"""The cell magic `%%mucc` of Jupyter and IPython.

    %load_ext mucc

    %%mucc
    kernel scale[N](x: f32[N], a: f32) -> f32[N] {
        return a * x
    }

Behind that cell, `scale(x, 2.0)` runs the kernel.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

from IPython.core.error import UsageError

from mucc.diagnostics.core import DiagnosticError, Severity
from mucc.diagnostics.render import render_text
from mucc.runtime import CompileError, MuccError, check, compile
from mucc.target import DEFAULT_TARGET


class Shell(Protocol):
    """The session of IPython, as far as it is used here."""

    execution_count: int

    def push(self, variables: Mapping[str, object]) -> None:
        """Define variables of the user."""
        ...

    def register_magic_function(self, func: Callable[..., object], magic_kind: str, magic_name: str) -> None:
        """Define a magic."""
        ...


class _Parser(argparse.ArgumentParser):
    """A parser that does not end the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Arguments(argparse.Namespace):
    name: str | None
    target: str
    dims: list[str]
    check: bool
    help: bool


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        "%%mucc", add_help=False, description="Compile a cell, and define a variable for each kernel."
    )
    parser.add_argument("name", nargs="?", help="a variable for the whole module")
    parser.add_argument("--target", default=DEFAULT_TARGET, help="the GPU to compile for")
    parser.add_argument(
        "--dims", nargs="*", default=[], metavar="M=4096", help="typical sizes, or ranges such as M=1..4096"
    )
    parser.add_argument("--check", action="store_true", help="report errors and warnings, compile nothing")
    parser.add_argument("-h", "--help", action="store_true", help="show this text, compile nothing")
    return parser


def _arguments(line: str) -> _Arguments | None:
    """Parse the words behind `%%mucc`, or print the help and return None. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{error} in: {line}") from None
    given = _parser().parse_args(words, _Arguments())
    if given.help:
        print(_parser().format_help())
        return None
    if given.name is not None and not given.name.isidentifier():
        raise UsageError(f"'{given.name}' is no name of a variable")
    return given


def _check(cell: str, given: _Arguments, name: str) -> None:
    """Print the errors and warnings of a notebook cell. Raises UsageError if there are errors."""
    found = check(cell, given.target, name=name, dims=given.dims)
    print("\n".join(map(render_text, found)) or "no errors, no warnings")
    if errors := [d for d in found if d.severity is Severity.ERROR]:
        raise UsageError(f"mucc found error {errors[0].code}")


def run_cell(shell: Shell, line: str, cell: str) -> None:
    """Compile a cell, and define a variable for each of its kernels. Raises UsageError; errors are shown."""
    if (given := _arguments(line)) is None:
        return
    name = f"<cell {shell.execution_count}>"
    try:
        if given.check:
            _check(cell, given, name)
            return
        module = compile(cell, given.target, name=name, dims=given.dims)
    except (CompileError, DiagnosticError) as error:
        for diagnostic in error.diagnostics:
            print(render_text(diagnostic), file=sys.stderr)
        raise UsageError(f"mucc ended with error {error.diagnostics[0].code}") from None
    except MuccError as error:
        raise UsageError(f"error[{error.code}]: {error.message}") from None
    kernels = {kernel.name: kernel for kernel in module.kernels}
    shell.push(kernels if given.name is None else {**kernels, given.name: module})


def register(shell: Shell) -> None:
    """Define the magic in a session."""

    def mucc(line: str, cell: str) -> None:
        """Compile a cell, and define a variable for each kernel: `%%mucc [NAME] [--target TARGET]`."""
        run_cell(shell, line, cell)

    shell.register_magic_function(mucc, "cell", "mucc")
