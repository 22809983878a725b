"""The tools: what they take, and the command lines that they become."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from mucc.agent.audit.options import PRECISIONS
from mucc.agent.mcp.places import Places
from mucc.api.diagnostics import did_you_mean, usage_error
from mucc.api.json_types import Json

STDIN = "-"

TEXTS = ("schedule", "manifest", "header", "ast", "mu", "stages", "cutlass", "cu", "ptx")
BINARIES = ("so", "cubin")
"""What compiling can make: texts are answered, binaries are written."""


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
        """Of its arguments."""
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


PATH = Field("path", "string", "a .mcu file, relative to the server's folder")
SOURCE = Field("source", "string", "the program itself, instead of a path")
DIMS = Field("dims", "object", 'values of dims, such as {"M": 4096}')
TARGET = Field("target", "string", "the GPU to compile for (default: sm_90a)")
KERNEL = Field("kernel", "string", "which kernel of the file, where it holds several")


def _program(tool: str, given: Mapping[str, Any], places: Places) -> tuple[str, str]:
    """Return the word for the program, and what goes to stdin."""
    if ("path" in given) == ("source" in given):
        raise usage_error(f"{tool} needs either path or source")
    if "source" in given:
        return STDIN, given["source"]
    return places.inside(given["path"]), ""


def _options(given: Mapping[str, Any], *names: str) -> list[str]:
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


def _compile(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("compile", given, places)
    emit = given.get("emit", "so")
    words = ["build", word, f"--emit={emit}", *_options(given, "dims", "target")]
    if "output" not in given and emit in BINARIES:
        raise usage_error("compile needs output, the file to write", "or emit one of: " + ", ".join(TEXTS))
    writes = places.inside(given["output"]) if "output" in given else ""
    return Order("mucc", (*words, *(("-o", writes) if writes else ())), text, writes, text=True)


def _check(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("check", given, places)
    return Order("mucc", ("check", word, *_options(given, "dims", "target")), text, text=True)


def _explain(given: Mapping[str, Any], places: Places) -> Order:
    codes: list[str] = given["codes"]
    if bad := [code for code in codes if code.startswith("-")]:
        raise usage_error(f"'{bad[0]}' is no code")
    return Order("mucc", ("explain", *codes), text=True)


def _sol(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("sol", given, places)
    options = _options(given, "dims", "device", "kernel", "measured", "baseline")
    return Order("mucc", ("sol", word, "--json", *options), text)


def _run(given: Mapping[str, Any], places: Places) -> Order:
    word, text = _program("run", given, places)
    options = _options(given, "dims", "kernel", "device", "iters", "seed", "target")
    return Order("mucc", ("run", word, "--json", *options), text)


def _tune(given: Mapping[str, Any], places: Places) -> Order:
    options = _options(given, "dims", "kernel", "budget", "keep_pins", "again", "target")
    writes = places.inside(given["output"]) if "output" in given else ""
    words = ("tune", places.inside(given["path"]), "--json", *options)
    return Order("mucc", (*words, *(("-o", writes) if writes else ())), writes=writes)


def _audit(given: Mapping[str, Any], places: Places) -> Order:
    files = [places.inside(given[name]) for name in ("problem", "solution")]
    options = _options(given, "device", "card", "precision", "seed", "runs", "shapes")
    return Order("mucc.agent", ("audit", *files, "--json", *options))


TOOLS = (
    Tool(
        "compile",
        "Compile a .mcu program into a loadable .so, or show a level on the way: the schedule that the "
        "compiler chose, CUTLASS C++, PTX. A library takes seconds to minutes.",
        (
            PATH,
            SOURCE,
            Field("emit", "string", "what to make (default: so)", choices=(*TEXTS, *BINARIES)),
            Field("output", "string", "the file to write; texts are answered where it is left out"),
            DIMS,
            TARGET,
        ),
        _compile,
        writes=True,
    ),
    Tool(
        "check",
        "Errors and warnings of a .mcu program, fast: run it on each version.",
        (PATH, SOURCE, DIMS, TARGET),
        _check,
    ),
    Tool(
        "explain",
        "What diagnostic codes mean, and how to mend them.",
        (Field("codes", "array", 'such as ["MU3004"]', needed=True),),
        _explain,
    ),
    Tool(
        "sol",
        "The speed of light of a program, or of a PyTorch problem file (.py): what no implementation is "
        "faster than on a card, by which limit, and what would lower it.",
        (
            Field("path", "string", "a .mcu file, or a PyTorch problem file (.py)"),
            SOURCE,
            DIMS,
            Field("device", "string", "the card (default: h200)"),
            KERNEL,
            Field("measured", "number", "a measured time in ms, to compare with the bound"),
            Field("baseline", "number", "the time of a baseline in ms, for the SOL score"),
        ),
        _sol,
    ),
    Tool(
        "run",
        "Compile a program, run it on random inputs, compare with the float64 interpreter, and time it. "
        "Without a GPU (device cpu) what it was lowered to is interpreted, and nothing is timed.",
        (
            PATH,
            SOURCE,
            DIMS,
            KERNEL,
            Field("device", "string", "where (default: cuda if it can)", choices=("cuda", "cpu")),
            Field("iters", "integer", "timed launches (default: 50)", least=1),
            Field("seed", "integer", "of the inputs (default: a new one, which is answered)", least=0),
            TARGET,
        ),
        _run,
    ),
    Tool(
        "tune",
        "Search for the fastest schedules of a program by measuring them on this machine's GPU. Takes "
        "minutes; what was measured is kept, so that a search that was cancelled goes on where it was.",
        (
            Field("path", "string", "a .mcu file", needed=True),
            DIMS,
            KERNEL,
            Field("budget", "integer", "skeletons that nvcc compiles at most (default: 24)", least=1),
            Field("keep_pins", "boolean", "search only what the file's schedules leave open"),
            Field("again", "boolean", "measure again what was measured before"),
            Field("output", "string", "the file to write the program with the best schedule to"),
            TARGET,
        ),
        _tune,
        writes=True,
    ),
    Tool(
        "audit",
        "Decide whether a solution counts as a replacement of a PyTorch problem: results on fresh and hidden "
        "inputs, times, and every known way of cheating.",
        (
            Field("problem", "string", "a problem file (.py)", needed=True),
            Field(
                "solution", "string", "a .mcu program, a library that mucc built, or a .py file", needed=True
            ),
            Field(
                "device", "string", "where (default: a GPU if there is one)", choices=("auto", "cuda", "cpu")
            ),
            Field("precision", "string", "the narrowest format for f32 products", choices=PRECISIONS),
            Field("card", "string", "the card whose bound holds (default: the one at hand)"),
            Field("seed", "integer", "repeat an audit", least=0),
            Field("runs", "integer", "timed calls at the most (default: 30)", least=1),
            Field("shapes", "boolean", "audit at smaller sizes too"),
        ),
        _audit,
    ),
)
