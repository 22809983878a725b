"""Work on a GPU before and after calls, told by how long the judge's own kernel takes."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import gate, rooms, trial
from mucc.agent.audit.detectors import early_work, late_work, timers
from mucc.agent.audit.observations import Observations, Reference, Timing


def findings(detector: Any, *cleared: float) -> list[Any]:
    timing = Timing(cleared=cleared)  # pyright: ignore[reportArgumentType]
    seen = Observations("cuda", "declared", None, (), (), timing, Reference(), None, (), ())
    return list(detector.check(seen))


@pytest.mark.parametrize(
    ("cleared", "late"),
    [
        ((0.1, 0.1, 0.12, 0.1), False),
        ((0.1, 0.1, 0.8, 0.1), True),
        ((0.1, 0.8, 0.8, 0.1), False),  # at work all the time: `early_work` tells
        ((0.1, 0.1, 0.8, 0.8), False),  # another process came
        ((2.0, 2.0, 2.3, 0.1), False),
    ],
)
def test_work_after_a_call_is_rejected(cleared: tuple[float, ...], late: bool):
    found = findings(late_work.LateWork(), *cleared)
    assert [f.severity for f in found] == ["reject"] * late


@pytest.mark.parametrize(
    ("cleared", "early"),
    [
        ((0.1, 0.12, 0.1, 0.1), False),
        ((0.1, 2.4, 2.4, 0.1), True),
        ((0.1, 2.4, 2.4, 2.2), False),  # another process came
        ((2.0, 2.4, 2.4, 0.1), False),  # another process has gone
        ((2.0, 2.4, 2.4, 2.0), False),
        ((0.1, 0.3, 0.3, 0.1), False),
        ((0.0, 9.0, 9.0, 0.0), False),  # nothing was measured: words were told
    ],
)
def test_work_before_a_call_is_the_solutions_where_it_comes_and_goes_with_it(
    cleared: tuple[float, ...], early: bool
):
    found = findings(early_work.EarlyWork(), *cleared)
    assert [f.severity for f in found] == ["reject"] * early
    assert not any(f.is_repeated for f in found), "a second audit has to see it"


def test_what_is_handed_over_late_counts():
    """Columns: returned, handed over, what handing over takes, in ms; when it began."""
    calls = [[1.0, 1.1, 0.12, 0], [0.01, 1.12, 0.12, 0], [0.01, 0.14, 0.12, 0]]
    parts = [
        part(cleared=[0.2, 0.3, 0.4]),
        part(late=["timed 7"], bands_changed=[1], cleared=[0.2, 0.1, 0.0]),
    ]
    found = trial._timing(calls, parts, Timing(late=("timed 2",)))  # pyright: ignore[reportPrivateUsage]
    assert found.calls == pytest.approx((0.995, 0.995, 0.015)) and found.deferred == 1
    assert found.late == ("timed 2", "timed 7") and found.bands == (1,)
    assert found.cleared == (0.2, 0.1, 0.4, 0.0)


def part(**more: Any) -> dict[str, Any]:
    """What the judge says of a part of a series."""
    found = {
        "overhead": 0.005,
        "late": [],
        "bands_changed": [],
        "cleared": [0.0, 0.0, 0.0],
        "forged": [],
    }
    return {**found, **more}


def test_marks_that_come_before_a_call_can_begin_are_rejected():
    room, fd = rooms.make(gate.BYTES)
    os.close(fd)
    held = gate.Gate(room)
    held.next()
    words = memoryview(room.memory).cast("I")
    assert not held.is_marked(gate.DONE)
    words[gate.DONE * gate.LINE] = held.number
    assert held.is_marked(gate.DONE) and not held.is_marked(gate.HANDED)
    parts = [part(forged=["timed 1"]), part(forged=["timed 9"])]
    timing = trial._timing([[1.0, 1.1, 0.1, 0]], parts, Timing())  # pyright: ignore[reportPrivateUsage]
    seen = Observations("cuda", "declared", None, [], [], timing, Reference(), None, [], [])
    (found,) = timers.Timers().check(seen)
    assert found.severity == "reject" and found.is_repeated and "timed 1, timed 9" in found.message
