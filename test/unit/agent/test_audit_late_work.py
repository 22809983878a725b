"""Late work on a device: what one undisturbed call shows counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mucc.agent.audit.detectors import late_work
from mucc.agent.audit.observations import Observations, Reference, Timing

CALM = (0.6, 0.62)
DISTURBED = (0.61, 1.09)


def findings(*whole: tuple[float, float]) -> list[str]:
    seen = Observations("cuda", "declared", None, (), (), Timing(), Reference(), None, (), ())
    return [f.severity for f in late_work.LateWork().check(replace(seen, timing=Timing(whole=whole)))]


def test_one_calm_call_clears_a_solution():
    assert findings(DISTURBED, CALM, DISTURBED) == []


def test_work_that_is_late_in_every_call_is_rejected():
    assert findings(*[DISTURBED] * 5) == ["reject"]


@pytest.mark.parametrize(
    ("times", "late"),
    [((0.01, 0.2), False), ((0.01, 0.23), True), ((4.0, 5.1), False), ((4.0, 5.3), True)],
)
def test_what_waiting_costs_is_tolerated(times: tuple[float, float], late: bool):
    assert bool(findings(times)) is late
