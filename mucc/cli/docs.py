"""`mucc docs`: the reference card, the grammar, and the list of diagnostic codes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from mucc.cli import options
from mucc.cli.command import command
from mucc.cli.parameters import flag, option
from mucc.cli.reporting import Reporter
from mucc.diagnostics.usage import usage_error

PAGES = ("card", "grammar", "errors", "man")
"""The options that say what is printed."""


@dataclass
class Arguments:
    """The arguments of `mucc docs`."""

    card: bool = flag(help="the language on one page: enough to write correct programs from")
    grammar: bool = flag(help="the grammar in EBNF")
    errors: bool = flag(help="every diagnostic code with its explanation, as Markdown")
    man: str | None = option(None, metavar="FOLDER", help="write manual pages of all commands to a folder")
    diagnostics: str = options.diagnostics()
    verbose: bool = options.verbose()


@command(
    Arguments,
    "Print documentation that is made from the compiler itself.",
    usage="--card | --grammar | --errors | --man FOLDER",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print one page."""
    asked = [name for name in PAGES if getattr(args, name)]
    if not asked:
        raise usage_error("which page?", "mucc docs --card, --grammar, --errors or --man FOLDER")
    if len(asked) > 1:
        raise usage_error(
            f"argument --{asked[1]}: not allowed with argument --{asked[0]}",
            "`mucc docs --help` lists the options",
        )
    if args.man is not None:
        write_manual(args.man)
    else:
        sys.stdout.write(page(asked[0]))
    return 0


def write_manual(folder: str) -> None:
    """Write the manual pages of all commands to a folder, which is made if need be. Raises MU5001."""
    from mucc.cli.man import pages
    from mucc.cli.registry import MUCC
    from mucc.compiler import files

    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is none"
        raise usage_error(f"cannot make the folder '{folder}': {reason}") from None
    for name, text in pages(MUCC).items():
        files.write_output(os.path.join(folder, name), text.encode())


def page(name: str) -> str:
    """Generate a page: `card`, `grammar` or `errors`."""
    match name:
        case "card":
            from mucc.frontend.reference import card

            return card()
        case "grammar":
            if sys.flags.optimize > 1:
                raise usage_error(
                    "the grammar is made of docstrings, which `python -OO` leaves out", "leave out -OO"
                )
            from mucc.frontend.grammar import grammar

            return grammar()
        case _:
            from mucc.diagnostics.explain import errors_page

            return errors_page()
