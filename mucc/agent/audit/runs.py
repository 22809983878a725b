"""What comes out of a trial: its calls, what was seen of them, and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mucc.agent.audit.cases import Case
from mucc.agent.audit.findings import Failed
from mucc.agent.audit.observations import Timing
from mucc.agent.audit.places import Look
from mucc.agent.audit.times import Times
from mucc.api.json_types import Json

SLACK, SLACK_MS = 1.5, 0.05
"""Times what handing over takes, and ms beside that, after which it is told that a call still computed."""


class Entry(NamedTuple):
    """A case, what the candidate's process said of it, and what the judge saw."""

    case: Case
    said: Json | None
    """None of a timed call."""


@dataclass
class Run:
    """What came out of a trial, to be compared when the candidate's process has ended."""

    card: str = ""
    made: list[Entry] = field(default_factory=list["Entry"])
    """All calls in the order in which they were made."""
    decisive: frozenset[str] = frozenset()
    """The names of timed calls that alone make the time what it is."""
    timing: Timing = field(default_factory=Timing)
    looks: list[Look] = field(default_factory=list[Look])
    operations: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """What PyTorch's profiler told of the operations in timed calls on a GPU, by their names."""
    signs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    libraries: tuple[str, ...] = ()
    failed: Failed | None = None


class CandidateFailed(Exception):
    """The candidate raised: an outcome, not an error."""


class TooBusy(Exception):
    """Other work took so much of the time that nothing can be said."""


def timing_of(times: Sequence[Times], series: list[Json], before: Timing) -> Timing:
    """Return the times of a series' calls in ms.

    `series` has what the judge found of each part, and `before` what was found before the series.
    """
    deferred = sum(t.handed - t.returned > SLACK * t.copied + SLACK_MS for t in times)
    overhead = float(series[0]["overhead"])
    before_calls, during, left = (
        min((ms for ms in least if ms), default=0.0)
        for least in zip(*(found["cleared"] for found in series), strict=True)
    )
    return Timing(
        tuple(max(ms - overhead, 1e-4) for ms in (t.counted for t in times)),
        wall_ms=sorted(t.handed for t in times)[len(times) // 2],
        late=(*before.late, *(str(name) for found in series for name in found["late"])),
        modified=tuple(sorted({*before.modified, *(n for found in series for n in found["modified"])})),
        aliased=tuple(sorted({*before.aliased, *(n for found in series for n in found["aliased"])})),
        unready=(*before.unready, *(str(name) for found in series for name in found["unready"])),
        bands=tuple(sorted({*before.bands, *(n for found in series for n in found["bands_changed"])})),
        deferred=deferred,
        forged=(*before.forged, *(str(name) for found in series for name in found["forged"])),
        cleared=(before_calls, during, left, 0.0),
    )
