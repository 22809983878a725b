"""Convert findings of passes to diagnostics at an expression or at a setting of a schedule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Attribute

from mucc.diagnostics import Applicability, Diagnostic, Fix, Source, Span
from mucc.dialects.locations import place_of, places_of
from mucc.dialects.mu.settings import SETTINGS
from mucc.dialects.rewriting import Finding

if TYPE_CHECKING:
    from mucc.frontend import ast


def span_of(source: Source, location: Attribute | None) -> Span | None:
    """Convert an op's location to a source span: the word that starts there."""
    if (place := place_of(location)) is None:
        return None
    start = source.offset(place.line.data, place.column.data)
    end = start + 1
    text = source.text
    while end < len(text) and (text[end].isalnum() or text[end] in "_."):
        end += 1
    return Span(start, end)


@dataclass(frozen=True)
class Reporter:
    """Converts findings about a program to diagnostics.

    `measured` has the origin of each measured schedule, by kernel and stage.
    """

    source: Source
    program: ast.Program
    target: str
    measured: Mapping[tuple[str, str], str]

    def diagnostic(self, finding: Finding) -> Diagnostic:
        """Convert a finding to a diagnostic at the schedule setting at fault, or at the expression."""
        setting = self._setting_span(finding)
        span = setting or span_of(self.source, finding.location)
        fixes: tuple[Fix, ...] = ()
        helps = finding.helps
        if finding.fix is not None and finding.setting is not None:
            text = f"{finding.setting} = {finding.fix}"
            if setting is not None:
                fixes = (Fix(setting, finding.fix, f"write `{text}`", Applicability.MACHINE_APPLICABLE),)
            else:
                helps = (*helps, f"write `{text}` in the schedule")
        message = finding.message
        if finding.function and span and (called := self._called_at(span)):
            message = message.replace(f"`{finding.function}`", f"`{called}`")
        places = [span_of(self.source, place) for place in places_of(finding.location)]
        calls = places[1:] if setting is None else []
        return Diagnostic(
            finding.code,
            message,
            span=span,
            labels=tuple((call, "in this call") for call in calls if call is not None),
            notes=(*finding.notes, *self._unwritten(finding)),
            helps=helps,
            fixes=fixes,
            source=self.source,
        )

    def _called_at(self, span: Span) -> str | None:
        """Return the name of the function that is called at an expression; None for other expressions."""
        text = self.source.text
        name = text[span.start : span.end]
        return name if name.isidentifier() and text[span.end :].lstrip()[:1] == "(" else None

    def _unwritten(self, finding: Finding) -> tuple[str, ...]:
        """Note the origin of settings that a finding mentions and the program does not set."""
        text = " ".join((finding.message, *finding.notes))
        is_measured = (finding.kernel, finding.stage) in self.measured
        origin = "measured by `mucc tune`" if is_measured else "the compiler's choice"
        return tuple(
            f"`{name} = {SETTINGS[name].text(value)}` is {origin}: the program does not set it"
            for name, value in finding.settings.items()
            if (name == finding.setting or _mentions(text, SETTINGS[name].mentions(value)))
            and self._setting_span(finding._replace(setting=name)) is None
        )

    def _setting_span(self, finding: Finding) -> Span | None:
        """Find the span of the setting at fault: in the stage's schedule first, then in the kernel's."""
        if finding.setting is None:
            return None
        for stage in (finding.stage, None):
            for schedule in self.program.schedules:
                pinned = schedule.stage.text if schedule.stage else None
                place = (schedule.kernel.text, pinned, schedule.target.text)
                if place != (finding.kernel, stage, self.target):
                    continue
                for setting in schedule.settings:
                    if setting.name.text == finding.setting:
                        return setting.value.span
        return None


def _mentions(text: str, forms: Iterable[str]) -> bool:
    """Whether a text has a value in one of its forms, such as `pingpong` or `128x64x64`."""
    return any(re.search(rf"(?<![\w.]){re.escape(form)}(?!\w)", text) for form in forms if len(form) > 2)
