"""Split a `.mcu` text into kernels and schedules, and join them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mucc.api import language
from mucc.api.diagnostics import Source
from mucc.api.language import value_text
from mucc.api.schedules import Survey

Settings = Mapping[str, str]
"""A schedule as source has it: the text of each setting by its name."""

Place = tuple[str, str]
"""A contraction: its kernel and its stage; the stage is empty where a schedule is for all of a kernel."""

NAME = "program.mcu"
"""The name of programs in messages."""


@dataclass(frozen=True)
class Split:
    """A program as its kernels, as `mucc fmt` lays them out, and settings of its schedules for a target."""

    body: str
    pinned: Mapping[Place, Settings]

    def settings(self, kernel: str, stage: str) -> dict[str, str]:
        """Return the settings that are pinned for a contraction."""
        return {**self.pinned.get((kernel, ""), {}), **self.pinned.get((kernel, stage), {})}


def split(text: str, target: str) -> Split:
    """Return a program without its schedules, and these. Raises DiagnosticError on syntax errors."""
    source = Source(NAME, text)
    program, sink = language.parse(source)
    sink.raise_if_errors()
    pinned: dict[Place, dict[str, str]] = {}
    body = text
    for schedule in reversed(program.schedules):
        body = body[: schedule.span.start] + body[schedule.span.end :]
        if schedule.target.text != target:
            continue
        place = (schedule.kernel.text, schedule.stage.text if schedule.stage else "")
        values = {s.name.text: value_text(s.value) for s in schedule.settings}
        pinned[place] = {**values, **pinned.get(place, {})}
    return Split(language.format(Source(NAME, body)), pinned)


def join(body: str, surveys: Iterable[Survey], choice: Mapping[Place, Settings]) -> str:
    """Return a program with a schedule for each contraction that is chosen for."""
    blocks: list[str] = []
    for kernel in surveys:
        own = {stage: settings for (name, stage), settings in choice.items() if name == kernel.kernel}
        if own:
            blocks.append(kernel.schedules(own))
    return "\n".join([body.rstrip("\n") + "\n", *blocks])
