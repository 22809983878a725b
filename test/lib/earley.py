"""Whether a context-free grammar in tree-sitter's JSON derives a list of tokens (Earley's algorithm)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

Symbol = str | Callable[[str], bool]
"""A rule by name, or a test of a token."""


class Grammar:
    """The rules of a grammar, each a list of alternatives; what is not named in it gets a name of its own."""

    def __init__(self, rules: dict[str, Any], keywords: frozenset[str]):
        self.keywords = keywords
        self.productions: dict[str, list[tuple[Symbol, ...]]] = {}
        for name, rule in rules.items():
            self.productions[name] = self._alternatives(rule)

    def _alternatives(self, rule: dict[str, Any]) -> list[tuple[Symbol, ...]]:
        match rule["type"]:
            case "SEQ":
                return [tuple(self._symbol(member) for member in rule["members"])]
            case "CHOICE":
                return [one for member in rule["members"] for one in self._alternatives(member)]
            case "BLANK":
                return [()]
            case "REPEAT":
                name = f"repeat{len(self.productions)}"
                self.productions[name] = []
                self.productions[name] += [(), (name, self._symbol(rule["content"]))]
                return [(name,)]
            case "FIELD" | "PREC" | "ALIAS" | "TOKEN":
                return self._alternatives(rule["content"])
            case _:
                return [(self._symbol(rule),)]

    def _symbol(self, rule: dict[str, Any]) -> Symbol:
        match rule["type"]:
            case "SYMBOL":
                return rule["name"]
            case "STRING":
                return lambda token, text=rule["value"]: token == text
            case "PATTERN":
                pattern = re.compile(rule["value"])
                return lambda token: pattern.fullmatch(token) is not None and token not in self.keywords
        name = f"part{len(self.productions)}"
        self.productions[name] = []
        self.productions[name] += self._alternatives(rule)
        return name

    def stops_at(self, start: str, tokens: Sequence[str]) -> int | None:
        """Return None if the grammar derives the tokens, otherwise how many of them it can read."""
        Item = tuple[str, tuple[Symbol, ...], int, int]
        columns: list[dict[Item, None]] = [{} for _ in range(len(tokens) + 1)]
        for body in self.productions[start]:
            columns[0][start, body, 0, 0] = None
        for at, column in enumerate(columns):
            empty: set[str] = set()
            waiting = list(column)
            while waiting:
                name, body, dot, origin = waiting.pop()
                new: list[Item] = []
                if dot == len(body):
                    if origin == at:
                        empty.add(name)
                    new = [(n, b, d + 1, o) for n, b, d, o in columns[origin] if d < len(b) and b[d] == name]
                elif isinstance(symbol := body[dot], str):
                    new = [(symbol, b, 0, at) for b in self.productions[symbol]]
                    if symbol in empty:
                        new.append((name, body, dot + 1, origin))
                elif at < len(tokens) and symbol(tokens[at]):
                    columns[at + 1][name, body, dot + 1, origin] = None
                for item in new:
                    if item not in column:
                        column[item] = None
                        waiting.append(item)
            if not column:
                return at - 1
        whole = any(n == start and d == len(b) and o == 0 for n, b, d, o in columns[-1])
        return None if whole else len(tokens)
