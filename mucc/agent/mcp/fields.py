"""The parameters of tools, and their conversion to command lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from mucc.agent.mcp.places import Places
from mucc.api.diagnostics import did_you_mean, usage_error
from mucc.api.json_types import Json


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of a tool: `kind` is the type of JSON, `choices` bounds strings."""

    name: str
    kind: str
    help: str
    needed: bool = False
    choices: Sequence[str] = ()
    least: float | None = None

    def schema(self) -> Json:
        """As JSON schema."""
        found: Json = {"type": self.kind, "description": self.help}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.least is not None:
            found["minimum"] = self.least
        if self.kind == "array":
            found["items"] = {"type": "string"}
        if self.kind == "object":
            found["additionalProperties"] = {"type": "integer", "minimum": 0}
        return found

    def check(self, tool: str, value: Any) -> None:
        """Raise MU5001 where a value is none of the field's."""
        if not _fits(self.kind, value):
            raise usage_error(f"{tool}: {self.name} is of type {self.kind}, not {_short(value)}", self.help)
        if self.choices and value not in self.choices:
            meant = did_you_mean(str(value), self.choices)
            helps = (f"did you mean '{meant}'?",) if meant else ()
            raise usage_error(
                f"{tool}: {self.name} is one of {', '.join(self.choices)}, not {_short(value)}", *helps
            )
        if self.least is not None and value < self.least:
            raise usage_error(f"{tool}: {self.name} is at least {self.least:g}, not {value}")


@dataclass(frozen=True, slots=True)
class Order:
    """A command to run: its module (`mucc` or `mucc.agent`), words, what goes to its stdin, and what it
    writes."""

    module: str
    words: tuple[str, ...]
    given: str = ""
    writes: str = ""
    text: bool = False
    """Whether it answers with a text rather than JSON."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: `order` makes a command of its arguments, which have been checked."""

    name: str
    help: str
    fields: Sequence[Field]
    order: Callable[[Mapping[str, Any], Places], Order]
    writes: bool = field(default=False)

    def schema(self) -> Json:
        """Return the JSON schema of the tool's arguments."""
        return {
            "type": "object",
            "properties": {f.name: f.schema() for f in self.fields},
            "required": [f.name for f in self.fields if f.needed],
            "additionalProperties": False,
        }

    def command(self, given: Mapping[str, Any], places: Places) -> Order:
        """Return the command for arguments. Raises MU5001 for wrong ones, MU7251 for paths that lead out."""
        known = {f.name: f for f in self.fields}
        for name, value in given.items():
            if name not in known:
                meant = did_you_mean(name, known)
                helps = (f"did you mean '{meant}'?",) if meant else (f"it takes {', '.join(known)}",)
                raise usage_error(f"{self.name} takes no argument '{name}'", *helps)
            if value is not None:
                known[name].check(self.name, value)
        values = {name: value for name, value in given.items() if value is not None}
        if missing := [f for f in self.fields if f.needed and f.name not in values]:
            raise usage_error(f"{self.name} needs {missing[0].name}", missing[0].help)
        return self.order(values, places)


def _fits(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case "array":
            return isinstance(value, list) and all(isinstance(v, str) for v in cast("list[Any]", value))
        case _:
            dims = cast("dict[Any, Any]", value) if isinstance(value, dict) else {None: None}
            return all(
                isinstance(k, str) and k.isidentifier() and _fits("integer", v) for k, v in dims.items()
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def options(given: Mapping[str, Any], *names: str) -> list[str]:
    """Options of the same names, each as one word, so that no value is taken for an option."""
    found: list[str] = []
    for name in names:
        value = given.get(name)
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif isinstance(value, dict):
            dims = cast("dict[str, int]", value)
            if dims:
                found.append(f"{option}={','.join(f'{k}={v}' for k, v in dims.items())}")
        elif value is not None and value is not False:
            found.append(f"{option}={value}")
    return found
