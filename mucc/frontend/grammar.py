"""Collect the grammar in EBNF from the docstrings of the parser's methods."""

from __future__ import annotations

import inspect
import re

from mucc.frontend import lexer
from mucc.frontend.expressions import ExpressionParser
from mucc.frontend.parser import Parser

WIDTH = 100

_RULE = re.compile(r"^([a-z_]+) *= [^;]*(?:\"[^\"]*\"[^;]*)*;(?: *\(\*.*\*\))?$", re.MULTILINE)


def rules() -> dict[str, str]:
    """Collect all rules by name, in the order of the methods: programs first, tokens last."""
    table: dict[str, str] = {}
    for method in (*vars(Parser).values(), *vars(ExpressionParser).values(), lexer.lex):
        doc = inspect.getdoc(method) if inspect.isfunction(method) else None
        for match in _RULE.finditer(inspect.cleandoc(doc or "").replace("\n    ", "\n")):
            table[match.group(1)] = " ".join(match.group().split())
    return table


def grammar() -> str:
    """Print the grammar, with equals signs aligned and lines of at most 100 columns."""
    table = rules()
    width = max(map(len, table))
    lines: list[str] = []
    for name, rule in table.items():
        body = rule.removeprefix(name).strip().removeprefix("= ")
        lines += _wrapped(f"{name:<{width}} = ", body)
    return "".join(line + "\n" for line in lines)


def _wrapped(head: str, body: str) -> list[str]:
    lines: list[str] = []
    line = head
    for word in re.findall(r'"[^"]*"|\(\*.*\*\)|\S+', body):
        if len(line) + len(word) > WIDTH:
            lines.append(line.rstrip())
            line = " " * len(head)
        line += word + " "
    return [*lines, line.rstrip()]
