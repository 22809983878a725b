"""Prices of tokens."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import cast

from mucc.agent.propose.llm.endpoint import Usage
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json

LARGEST = 1 << 20
"""Characters of a list of prices that are read."""

LIST = "prices.toml"

MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens, by what happens to them."""

    input: float
    output: float
    cached: float
    cache_write: float

    def cost(self, usage: Usage) -> float:
        """US dollars for a call."""
        fresh = usage.prompt - usage.cached - usage.cache_written
        total = (
            max(fresh, 0) * self.input
            + usage.cached * self.cached
            + usage.cache_written * self.cache_write
            + usage.answer * self.output
        )
        return total / MILLION


def price_of(model: str, given: str | None = None, path: str | None = None) -> Price | None:
    """Return the price of a model: as given, of the list in a file, or of mucc's; None where it is in none.

    `given` is `IN,OUT` or `IN,OUT,CACHED`. Raises MU7250 where prices cannot be read.
    """
    if given is not None:
        return _given(given)
    if path is not None and (found := _find(_listed(path), model)) is not None:
        return found
    text = resources.files("mucc.agent.propose.llm").joinpath(LIST).read_text(encoding="utf-8")
    return _find(_parse(text, LIST), model)


def _given(text: str) -> Price:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(0 <= n < float("inf") for n in numbers):
        raise _error(f"'{text}' is no price", "IN,OUT or IN,OUT,CACHED in US dollars for a million tokens")
    return Price(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else numbers[0], numbers[0])


def _listed(path: str) -> dict[str, Price]:
    try:
        with open(path, encoding="utf-8") as file:
            return _parse(file.read(LARGEST), path)
    except (OSError, UnicodeDecodeError) as error:
        raise _error(f"cannot read the prices in '{path}': {error}") from None


def _parse(text: str, path: str) -> dict[str, Price]:
    """All models of a list, with their prices."""
    found: dict[str, Price] = {}
    try:
        for provider in tomllib.loads(text)["provider"]:
            for model, numbers in cast("Json", provider["models"]).items():
                found[model] = _price(numbers)
    except tomllib.TOMLDecodeError as error:
        raise _error(f"the prices in '{path}' are no TOML: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _error(f"the prices in '{path}' have the wrong form: {type(error).__name__}: {error}") from None
    return found


def _price(numbers: Json) -> Price:
    first = float(numbers["input"])
    last = [float(numbers.get(name, first)) for name in ("cached", "cache_write")]
    price = Price(first, float(numbers["output"]), *last)
    if min(price.input, price.output, *last) < 0:
        raise ValueError("a price below 0")
    return price


def _find(prices: dict[str, Price], model: str) -> Price | None:
    """By the model's name, without the name of a router before it and a date after it."""
    name = model.rpartition("/")[2]
    return (
        prices.get(model) or prices.get(name) or prices.get(re.sub(r"-(\d{8}|\d{4}-\d{2}-\d{2})$", "", name))
    )


def _error(message: str, *helps: str) -> DiagnosticError:
    helps = helps or ("docs/agent/llm.md shows the form",)
    return DiagnosticError(Diagnostic("MU7250", message, helps=helps))
