"""Plans as values: programs, sizes, and a candidate for each choice of schedules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mucc.database.records import Choice, Settings, Stage
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source
from mucc.files.json_data import to_json

FORMAT = 1
"""Of plan.json."""


@dataclass(frozen=True, slots=True)
class Program:
    """A source, the sizes to tune it for, and which of its kernels; all kernels where none is named."""

    source: Source
    dims: Sequence[Mapping[str, int]]
    kernel: str | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Values for a kernel's dims, and what each contraction's problem is then.

    `bound_us` is what no kernel can be faster than: None where the card's rates are not known. `flops`
    counts a multiply-add as two.
    """

    dims: Mapping[str, int]
    problems: Mapping[str, str]
    bound_us: float | None
    flops: float

    @property
    def text(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.dims.items())


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule for every contraction of a kernel, made to see how that of `stage` does.

    `estimates` has the model's time in microseconds for each size of the kernel, None where it is not worth
    measuring.
    """

    id: str
    stage: str
    choice: Choice
    estimates: tuple[float | None, ...]

    @property
    def settings(self) -> Settings:
        """The schedule of the stage."""
        return self.choice[self.stage]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel to be tuned: its text without schedules, and what to try.

    `file` is what its source is called, `digest` tells kernels apart, `bodies` the pointwise work of each
    contraction, in launch order.
    """

    file: str
    name: str
    target: str
    text: str
    digest: str
    bodies: Mapping[str, str]
    sizes: tuple[Size, ...]
    candidates: tuple[Candidate, ...] = field(default=())

    def source(self, choice: Choice) -> Source:
        """Return the program with these schedules."""
        return Source(self.file, f"{self.text}\n{self.schedules(choice)}")

    def schedules(self, choice: Choice) -> str:
        """Schedules as source."""
        return "\n".join(
            schedule_block(
                self.name if len(self.bodies) == 1 else f"{self.name}.{stage}", self.target, settings
            )
            for stage, settings in choice.items()
        )

    def stages(self, size: Size, choice: Choice) -> tuple[Stage, ...]:
        """Return the stages that a measurement is about."""
        return tuple(
            Stage(name, size.problems[name], body, choice[name]) for name, body in self.bodies.items()
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Kernels to be tuned. `support` and `mucc` say whose device code a library of it holds."""

    target: str
    mucc: str
    support: str
    kernels: tuple[Kernel, ...]

    def to_json(self) -> str:
        """Return the text of plan.json."""
        return json.dumps({"mucc_plan": FORMAT, **to_json(self)}, indent=1) + "\n"

    @staticmethod
    def from_json(text: str, where: str) -> Plan:
        """Parse the text of a plan that `to_json` wrote. Raises MU5302 or MU5303, which name `where`."""
        try:
            data = json.loads(text)
            version = data["mucc_plan"]
        except (ValueError, KeyError, TypeError):
            raise _no_plan(where, "it holds no plan") from None
        if not isinstance(version, int) or version > FORMAT:
            helps = ("use the same mucc on both machines",)
            message = f"{where} is of a newer mucc ({data.get('mucc', '?')}): format {version}, not {FORMAT}"
            raise DiagnosticError(Diagnostic("MU5303", message, helps=helps))
        try:
            kernels = tuple(_kernel(k) for k in data["kernels"])
            return Plan(str(data["target"]), str(data["mucc"]), str(data["support"]), kernels)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _no_plan(where, f"a field is missing or has the wrong form: {error}") from None


def _no_plan(where: str, why: str) -> DiagnosticError:
    helps = ("`mucc tune FILE --dims … --build-only FOLDER` makes such a folder",)
    return DiagnosticError(Diagnostic("MU5302", f"{where} is no plan for tuning: {why}", helps=helps))


def schedule_block(name: str, target: str, settings: Settings) -> str:
    """Return a schedule as `mucc fmt` lays it out."""
    width = max(map(len, settings))
    lines = [f"    {setting:<{width}} = {text}" for setting, text in settings.items()]
    return "\n".join([f"schedule {name} for {target} {{", *lines, "}"]) + "\n"


def compact(settings: Settings) -> str:
    """Return a schedule in one line, for tables: `128x256x64 2x1 cooperative persistent(…)`."""
    from mucc.dialects.mu.settings import SETTINGS

    terse = [setting.name for setting in SETTINGS.values() if setting.terse]
    return " ".join(text if name in terse else f"{name}={text}" for name, text in settings.items())


def _kernel(data: Any) -> Kernel:
    sizes = tuple(
        Size(
            {str(k): int(v) for k, v in s["dims"].items()},
            {str(k): str(v) for k, v in s["problems"].items()},
            None if s["bound_us"] is None else float(s["bound_us"]),
            float(s["flops"]),
        )
        for s in data["sizes"]
    )
    candidates = tuple(_candidate(c, len(sizes)) for c in data["candidates"])
    file, name, target, text, digest = (str(data[n]) for n in ("file", "name", "target", "text", "digest"))
    bodies = {str(k): str(v) for k, v in data["bodies"].items()}
    return Kernel(file, name, target, text, digest, bodies, sizes, candidates)


def _candidate(data: Any, sizes: int) -> Candidate:
    choice = {str(s): {str(k): str(v) for k, v in given.items()} for s, given in data["choice"].items()}
    estimates = tuple(None if e is None else float(e) for e in data["estimates"])
    if len(estimates) != sizes or data["stage"] not in choice:
        raise ValueError("a candidate does not fit its kernel")
    if not isinstance(data["id"], str) or not data["id"].isalnum():
        raise ValueError("a candidate's id must be letters and digits")
    return Candidate(data["id"], data["stage"], choice, estimates)
