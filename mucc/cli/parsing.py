"""Argument parsing with coded errors and "did you mean"."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn, TypeVar

from mucc.diagnostics.core import Diagnostic, DiagnosticError, did_you_mean

T = TypeVar("T")

DEFAULT_TARGET = "sm_90a"

MOST_MEBIBYTES = 1 << 30
"""The most memory that a limit may name: 1 PiB, more than any machine has."""

_NO_NUMBER = r"argument ([^:]+): invalid (int|float) value: '((?s:.*))'"
"""What argparse says of an argument that is no number."""


def usage_error(message: str, *helps: str) -> DiagnosticError:
    """An error about the command line: MU5001, exit status 2."""
    return DiagnosticError(Diagnostic("MU5001", message, helps=helps))


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are diagnostics."""

    def __init__(self, command: str, description: str, *, usage: str | None = None, tool: str = "mucc"):
        super().__init__(
            prog=f"{tool} {command}",
            usage=usage,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.command = f"{tool} {command}"

    def error(self, message: str) -> NoReturn:
        helps = [f"`{self.command} --help` lists the options"]
        argument, _, rest = message.partition(": invalid choice: ")
        if rest:
            word = rest.partition(" (choose")[0].strip("'")
            message = f"{argument}: there is no '{word}'"
            for action in self._actions:
                names = "/".join(action.option_strings) or str(action.metavar)
                if action.choices and argument == f"argument {names}":
                    choices = [str(c) for c in action.choices]
                    if meant := did_you_mean(word, choices):
                        helps.insert(0, f"did you mean '{meant}'?")
                    helps.insert(len(helps) - 1, f"choose from {', '.join(choices)}")
        if (found := re.fullmatch(_NO_NUMBER, message)) is not None:
            kind = "a whole number" if found[2] == "int" else "a number"
            message = f"{found[1]} takes {kind}, not '{found[3]}'"
        raise usage_error(message, *helps)

    def parse(self, argv: Sequence[str], into: T) -> T:
        """Set the attributes of `into` from `argv`; its class holds their types and defaults.

        Raises MU5001 that names the first argument that is not known.
        """
        options = {action.dest for action in self._actions if action.option_strings}
        self.set_defaults(**{name: value for name, value in vars(into).items() if name in options})
        parsed, unknown = self.parse_known_intermixed_args(argv)
        if not unknown:
            for name, value in vars(parsed).items():
                if value is not None or name in options:
                    setattr(into, name, value)
            return into
        word = unknown[0].partition("=")[0]
        if word.startswith("-"):
            known = [flag for action in self._actions for flag in action.option_strings]
            meant = did_you_mean(word, (f for f in known if f.startswith("--")))
            first = f"did you mean '{meant}'?" if meant else f"`{self.command} --help` lists the options"
            raise usage_error(f"there is no option '{word}'", first)
        raise usage_error(f"unexpected argument '{unknown[0]}'", f"`{self.command} --help` shows the usage")


def check_limits(seconds: float, mebibytes: int) -> None:
    """Raise MU5001 where a process can have no such limits of time and memory."""
    if not seconds > 0:
        raise usage_error("--time-limit is above 0")
    if not 0 < mebibytes <= MOST_MEBIBYTES:
        raise usage_error(f"--memory-limit is from 1 to {MOST_MEBIBYTES} MiB")


def add_diagnostics(parser: argparse.ArgumentParser) -> None:
    """The option that every command with diagnostics has; `main` has looked at it already."""
    parser.add_argument(
        "--diagnostics",
        choices=("text", "json"),
        help="form of errors and warnings on stderr (default: text)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say what is being done, and show all details"
    )


def add_dims(parser: argparse.ArgumentParser) -> None:
    """The option that gives typical values of open dims."""
    parser.add_argument(
        "--dims",
        action="append",
        metavar="M=128,...",
        help="typical sizes, to choose schedules for; the library serves every size",
    )


def add_open_dims(parser: argparse.ArgumentParser) -> None:
    """The option that gives values of open dims, where nothing can be said without them."""
    parser.add_argument(
        "--dims", action="append", metavar="M=128,...", help="values of the dims that the program leaves open"
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """The option that says which GPU is compiled for."""
    parser.add_argument(
        "--target", metavar="ARCH", help=f"GPU to compile for; see `mucc targets` (default: {DEFAULT_TARGET})"
    )
