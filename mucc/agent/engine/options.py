"""The options of a run, and which of them may change when it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from mucc.agent.core.strategy import Budget
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.json_types import Json, from_json, to_json

FREE = ("jobs", "device", "isolation")
"""Options that do not change the search, and may differ when a run goes on."""

RESOURCES = ("seconds", "tokens", "cost")
"""Fields of the budget that may differ: a larger one lets a run go on."""


@dataclass(frozen=True)
class Options:
    """The options of a run. Nothing in it is secret.

    `constants` are of the strategy, `settings` of the proposer. `total` is the budget of attempts that all
    tasks share, `memory` the runs whose lessons are read, `isolation` which layers confine processes, `jobs`
    how much is done side by side.
    """

    precision: str = "declared"
    card: str = "h200"
    target: str = "sm_90a"
    device: str = "cuda"
    strategy: str = "mantis"
    constants: dict[str, float] = field(default_factory=dict[str, float])
    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    total: int | None = None
    proposer: str = "offline"
    settings: Json = field(default_factory=Json)
    memory: list[str] = field(default_factory=list[str])
    isolation: str = "best"
    jobs: int = 1

    def to_json(self) -> Json:
        """For the store."""
        return to_json(self)

    @staticmethod
    def from_json(data: Any) -> Options:
        """From the store."""
        return from_json(Options, data)


def resumed(stored: Options, asked: Json) -> Options:
    """Return the options of a run that goes on, with those of `asked` replaced.

    `asked` is as in `to_json`, only of what was named. Raises MU7206 where one would change the search.
    """
    known = stored.to_json()
    changed: list[str] = []
    for name, value in asked.items():
        if name == "budget":
            for key, amount in value.items():
                if key not in RESOURCES and known["budget"][key] != amount:
                    changed.append(f"budget.{key} is {known['budget'][key]}, not {amount}")
                known["budget"][key] = amount
        else:
            if name not in (*FREE, "total") and known[name] != value:
                changed.append(f"{name} is {known[name]}, not {value}")
            known[name] = value
    if changed:
        raise DiagnosticError(
            Diagnostic(
                "MU7206",
                f"the run was begun with other options: {'; '.join(changed)}",
                helps=("leave them out to go on with the run's own, or choose another folder with -o",),
            )
        )
    return Options.from_json(known)


def names() -> tuple[str, ...]:
    """Return the names of all options."""
    return tuple(f.name for f in fields(Options))
