"""Late work on a device: series of calls are repeated where others may have disturbed them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mucc.agent.audit.detectors import late_work
from mucc.agent.audit.observations import Observations, Reference, Timing

CALM = (0.6, 0.62)
DISTURBED = (0.61, 0.89)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, none of which takes time."""
    made: list[float] = []
    monkeypatch.setattr(late_work.time, "sleep", made.append)
    return made


def findings(*whole: tuple[float, float]) -> list[str]:
    seen = Observations("cuda", "declared", None, (), (), Timing(), Reference(), None, (), ())
    return [f.severity for f in late_work.LateWork().check(replace(seen, timing=Timing(whole=whole)))]


@pytest.mark.parametrize("calm_at", range(len(late_work.PAUSES)))
def test_series_end_with_one_that_is_calm(calm_at: int, pauses: list[float]):
    def series() -> Iterator[tuple[float, float]]:
        yield from [DISTURBED] * calm_at
        while True:
            yield CALM

    found = late_work.looked_for(series().__next__)
    assert len(found) == len(pauses) == max(late_work.LEAST, calm_at + 1)
    assert findings(*found) == []


def test_work_that_is_late_in_every_series_is_rejected(pauses: list[float]):
    found = late_work.looked_for(lambda: DISTURBED)
    assert len(found) == len(late_work.PAUSES) and 1 < sum(pauses) < 5
    assert findings(*found) == ["reject"]


@pytest.mark.parametrize(
    ("times", "late"),
    [((0.01, 0.055), False), ((0.01, 0.07), True), ((4.0, 4.9), False), ((4.0, 5.2), True)],
)
def test_what_waiting_costs_is_tolerated(times: tuple[float, float], late: bool):
    assert bool(findings(times)) is late
