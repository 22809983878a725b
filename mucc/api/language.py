"""The language: parse, format and print programs; the reference card and the grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.frontend import ast, dump, format, parse
    from mucc.frontend.exprtext import expr_text, value_text
    from mucc.frontend.grammar import grammar
    from mucc.frontend.reference import card

__all__ = [
    "ast",
    "card",
    "dump",
    "expr_text",
    "format",
    "grammar",
    "parse",
    "value_text",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.frontend": ("ast", "dump", "format", "parse"),
        "mucc.frontend.exprtext": ("expr_text", "value_text"),
        "mucc.frontend.grammar": ("grammar",),
        "mucc.frontend.reference": ("card",),
    },
)
