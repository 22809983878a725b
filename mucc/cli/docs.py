"""`mucc docs`: the reference card, the grammar, and the list of diagnostic codes."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

from mucc.cli.command import command
from mucc.cli.parameters import flag
from mucc.cli.reporting import Reporter
from mucc.diagnostics.usage import usage_error


@dataclass
class Arguments:
    """The arguments of `mucc docs`."""

    card: bool = flag(help="the language on one page: enough to write correct programs from")
    grammar: bool = flag(help="the grammar in EBNF")
    errors: bool = flag(help="every diagnostic code with its explanation, as Markdown")


@command(
    Arguments,
    "Print documentation that is made from the compiler itself.",
    usage="--card | --grammar | --errors",
)
def main(args: Arguments, reporter: Reporter) -> int:
    """Print one page."""
    asked = [f.name for f in fields(args) if getattr(args, f.name)]
    if not asked:
        raise usage_error("which page?", "mucc docs --card, --grammar or --errors")
    if len(asked) > 1:
        raise usage_error(
            f"argument --{asked[1]}: not allowed with argument --{asked[0]}",
            "`mucc docs --help` lists the options",
        )
    sys.stdout.write(page(asked[0]))
    return 0


def page(name: str) -> str:
    """Generate a page: `card`, `grammar` or `errors`."""
    match name:
        case "card":
            from mucc.frontend.reference import card

            return card()
        case "grammar":
            from mucc.frontend.grammar import grammar

            return grammar()
        case _:
            from mucc.diagnostics.explain import errors_page

            return errors_page()
