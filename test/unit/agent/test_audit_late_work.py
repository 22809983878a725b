"""Late work on a device: what one undisturbed call shows counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mucc.agent.audit import trial
from mucc.agent.audit.detectors import early_work, late_work
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


@pytest.mark.parametrize(
    ("cleared", "early"),
    [
        ((0.1, 0.12, 0.1), False),
        ((0.1, 2.4, 0.1), True),
        ((0.1, 2.4, 2.2), False),  # another process came
        ((2.0, 2.4, 0.1), False),  # another process has gone
        ((2.0, 2.4, 2.0), False),
        ((0.1, 0.55, 0.1), False),
        ((0.0, 9.0, 0.0), False),  # nothing was measured: words were told
    ],
)
def test_work_before_a_call_is_the_solutions_where_it_comes_and_goes_with_it(
    cleared: tuple[float, float, float], early: bool
):
    seen = Observations("cuda", "declared", None, (), (), Timing(cleared=cleared), Reference(), None, (), ())
    found = list(early_work.EarlyWork().check(seen))
    assert [f.severity for f in found] == ["reject"] * early
    assert not any(f.is_repeated for f in found), "a second audit has to see it"


def test_what_is_handed_over_late_counts():
    """Columns: returned, handed over, what handing over takes, idle; all in ms."""
    calls = [[1.0, 1.1, 0.12, 1.2], [0.01, 1.12, 0.12, 1.2], [0.01, 0.14, 0.12, 1.2]]
    found = trial._timing(calls, {"overhead": 0.005}, Timing())  # pyright: ignore[reportPrivateUsage]
    assert found.calls == pytest.approx((0.995, 0.995, 0.015)) and found.deferred == 1
