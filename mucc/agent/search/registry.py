"""The strategies by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mucc.agent.core.strategy import Budget, Strategy
from mucc.agent.search.mantis import Mantis
from mucc.agent.search.mcts import Mcts
from mucc.agent.search.mi import Mi
from mucc.api.diagnostics import Diagnostic, DiagnosticError, did_you_mean
from mucc.api.json_types import Json

STRATEGIES: Json = {"mantis": Mantis, "mi": Mi, "mcts": Mcts}


def make(name: str, budget: Budget, constants: Mapping[str, float] | None = None) -> Strategy:
    """Make a strategy with its constants; those that are not named have their defaults.

    Raises MU7207 for a strategy or a constant that there is not, or one that makes no sense.
    """
    kind = STRATEGIES.get(name)
    if kind is None:
        raise _unknown("strategy", name, STRATEGIES)
    known = {f.name: f for f in dataclasses.fields(kind.Constants)}
    found: Json = {}
    for constant, value in (constants or {}).items():
        if constant not in known:
            raise _unknown(f"constant of {name}", constant, known)
        if value < 0 or value != value:
            raise DiagnosticError(Diagnostic("MU7207", f"the constant {constant} is not negative: {value:g}"))
        found[constant] = int(value) if known[constant].type == "int" else float(value)
    return kind(budget, kind.Constants(**found))


def _unknown(what: str, word: str, known: Mapping[str, Any]) -> DiagnosticError:
    meant = did_you_mean(word, known)
    helps = (f"did you mean '{meant}'?",) if meant else (f"there are {', '.join(known)}",)
    return DiagnosticError(Diagnostic("MU7207", f"there is no {what} '{word}'", helps=helps))
