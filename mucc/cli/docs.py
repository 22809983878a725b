"""`mucc docs`: the reference card, the grammar, and the list of diagnostic codes."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from mucc.cli.parsing import Parser, usage_error
from mucc.cli.reporting import Reporter


@dataclass
class Arguments:
    """The parsed command line."""

    page: str | None = None


def parser() -> Parser:
    """The options of `mucc docs`."""
    p = Parser("docs", "Print documentation that is made from the compiler itself.")
    group = p.add_mutually_exclusive_group()
    for name, text in (
        ("card", "the language on one page: enough to write correct programs from"),
        ("grammar", "the grammar in EBNF"),
        ("errors", "every diagnostic code with its explanation, as Markdown"),
    ):
        group.add_argument(f"--{name}", action="store_const", const=name, dest="page", help=text)
    return p


def main(argv: list[str], reporter: Reporter) -> int:
    """Print the page that was asked for."""
    args = parser().parse(argv, Arguments())
    sys.stdout.write(page(args.page))
    return 0


def page(name: str | None) -> str:
    """The text of a page. Raises MU5001 where none was asked for."""
    match name:
        case "card":
            from mucc.frontend.reference import card

            return card()
        case "grammar":
            from mucc.frontend.grammar import grammar

            return grammar()
        case "errors":
            from mucc.diagnostics.explain import errors_page

            return errors_page()
        case _:
            raise usage_error("which page?", "mucc docs --card, --grammar or --errors")
