"""Work on a GPU before and after calls, told by how long the judge's own kernel takes."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")

from mucc.agent.audit import gate, rooms, timing, trial
from mucc.agent.audit.crowds import crowd
from mucc.agent.audit.described import aliases, dense_share
from mucc.agent.audit.detectors import early_work, late_work, noise, sol_ceiling, timers
from mucc.agent.audit.findings import Label
from mucc.agent.audit.observations import Bound, Observations, Reference, Timing
from mucc.agent.audit.runs import timing_of
from mucc.agent.audit.times import Times


def findings(detector: Any, *cleared: float, crowded: str = "") -> list[Any]:
    held = Timing(cleared=cleared, crowded=crowded)  # pyright: ignore[reportArgumentType]
    seen = Observations("cuda", "declared", None, (), (), held, Reference(), None, (), ())
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


def test_a_busy_gpu_that_others_use_too_rejects_nothing():
    """The times of an honest kernel beside another process on an H100."""
    cleared = (0.2, 0.306, 1.74, 0.2)
    assert [f.severity for f in findings(late_work.LateWork(), *cleared)] == ["reject"]
    (found,) = findings(late_work.LateWork(), *cleared, crowded="1 other process uses the GPU (7)")
    assert found.severity == "unsure" and "other process uses the GPU (7): audit again" in found.message
    (found,) = findings(early_work.EarlyWork(), 0.1, 2.4, 2.4, 0.1, crowded="other work delayed the GPU")
    assert found.severity == "unsure" and found.label == Label.INCONCLUSIVE


@pytest.mark.parametrize(
    ("others", "idle_ms", "often_ms", "least_ms", "said"),
    [
        ((), 0.008, 0.22, 0.2, ""),
        ((), 0.008, 1.9, 0.2, "its caches took 0.2 to 1.9 ms"),
        ((), 1.7, 0.2, 0.2, "a call that does nothing took 1.7 ms"),
        ((8, 7), 0.008, 0.2, 0.2, "2 other processes use the GPU (7, 8)"),
        ((), 0.0, 0.0, 0.0, ""),  # nothing was measured: words were told
    ],
)
def test_other_processes_on_a_gpu_are_seen_where_the_solution_has_ended(
    others: tuple[int, ...], idle_ms: float, often_ms: float, least_ms: float, said: str
):
    found = crowd(others, idle_ms, often_ms, least_ms)
    assert said in found and bool(found) == bool(said)


@pytest.mark.parametrize(("slow", "crowded"), [(0, False), (1, False), (4, True)])
def test_clearing_that_is_often_slow_shows_another_process(slow: int, crowded: bool):
    """One slow try is the host's, a third of them are another process's."""
    took = iter([1_900_000] * slow + [200_000] * timing.CLEARED)
    made: Any = timing.Stopwatch.__new__(timing.Stopwatch)
    made.clock, made._clear = object(), lambda: next(took)
    said = made.clear_again()
    assert said["ms"] == 0.2 and bool(crowd((), 0.0, said["often"], said["ms"])) == crowded


@pytest.mark.parametrize(
    ("told", "others"),
    [
        ({10, 11, 77}, {77}),  # the judge's, the candidate's, and another
        ({10, 11, 12}, set[int]()),
        ({77, 78}, set[int]()),  # numbers of another namespace: the judge's is not among them
        (set[int](), set[int]()),
    ],
)
def test_processes_of_audits_are_no_others(told: set[int], others: set[int], monkeypatch: pytest.MonkeyPatch):
    def named(bus: str) -> frozenset[int]:
        return frozenset(told if bus == "0:1" else ())

    monkeypatch.setattr(trial, "compute_processes", named)
    made: Any = trial.Trial.__new__(trial.Trial)
    seen: set[int] = set()
    made.device, made._bus, made._others = "cuda", "0:1", seen
    made.judge = SimpleNamespace(pid=10, kin=lambda: {9, 10, 11, 12})
    made._look_for_others()
    made._look_for_others()
    assert seen == others


@pytest.mark.parametrize(
    ("crowded", "severity"), [("", "reject"), ("1 other process uses the GPU", "unsure")]
)
def test_times_below_the_bound_reject_where_nobody_else_used_the_gpu(crowded: str, severity: str):
    held = Timing((1e-4,) * 9, crowded=crowded)
    seen = Observations("cuda", "declared", None, (), (), held, Reference(), Bound(0.01), (), ())
    (found,) = sol_ceiling.SolCeiling().check(seen)
    assert found.severity == severity


@pytest.mark.parametrize(("cached_ms", "rejected"), [(None, True), (0.0095, True), (0.005, False)])
def test_results_that_stay_in_the_cache_lower_the_ceiling(cached_ms: float | None, rejected: bool):
    held, bound = Timing((0.0084,) * 9), Bound(0.01, cached_ms=cached_ms)
    seen = Observations("cuda", "declared", None, (), (), held, Reference(), bound, (), ())
    assert bool(list(sol_ceiling.SolCeiling().check(seen))) is rejected


def test_what_is_handed_over_late_counts():
    calls = [Times(1.0, 1.1, 0.12, 0), Times(0.01, 1.12, 0.12, 0), Times(0.01, 0.14, 0.12, 0)]
    parts = [
        part(cleared=[0.2, 0.3, 0.4]),
        part(late=["timed 7"], bands_changed=[1], cleared=[0.2, 0.1, 0.0]),
    ]
    found = timing_of(calls, parts, Timing(late=("timed 2",)))
    assert found.calls == pytest.approx((0.995, 0.995, 0.015)) and found.deferred == 1
    assert found.late == ("timed 2", "timed 7") and found.bands == (1,)
    assert found.cleared == (0.2, 0.1, 0.4, 0.0)


def part(**more: Any) -> dict[str, Any]:
    """What the judge says of a part of a series."""
    found = {
        "overhead": 0.005,
        "late": [],
        "bands_changed": [],
        "modified": [],
        "aliased": [],
        "unready": [],
        "cleared": [0.0, 0.0, 0.0],
        "forged": [],
    }
    return {**found, **more}


def test_marks_that_come_before_a_call_can_begin_are_rejected():
    room, fd = rooms.make(gate.BYTES)
    os.close(fd)
    shut = gate.Gate(room)
    shut.next()
    words = memoryview(room.memory).cast("I")
    assert not shut.is_marked(gate.DONE)
    words[gate.DONE * gate.LINE] = shut.number
    assert shut.is_marked(gate.DONE) and not shut.is_marked(gate.HANDED)
    parts = [part(forged=["timed 1"]), part(forged=["timed 9"])]
    held = timing_of([Times(1.0, 1.1, 0.1, 0)], parts, Timing())
    seen = Observations("cuda", "declared", None, [], [], held, Reference(), None, [], [])
    (found,) = timers.Timers().check(seen)
    assert found.severity == "reject" and found.is_repeated and "timed 1, timed 9" in found.message


def test_results_whose_elements_share_memory_are_charged_for_being_written():
    expanded = {"dtype": "float32", "shape": [64, 32], "shares_elements": True}
    whole = {"dtype": "float32", "shape": [64, 96]}
    assert dense_share([whole]) == 1.0 and dense_share([expanded]) == 0.0
    assert dense_share([expanded, whole]) == 0.75 and dense_share([]) == 1.0
    assert aliases([{"aliases": [1]}, {"aliases": "what"}, {"aliases": 5}, {}]) == {1}


@pytest.mark.parametrize("crowded", ["", "1 other process uses the GPU (7)"])
def test_steady_times_beside_other_processes_are_noted(crowded: str):
    held = Timing((1.0,) * 9, crowded=crowded)
    seen = Observations("cuda", "declared", None, (), (), held, Reference(), None, (), ())
    found = [(str(f.severity), f.message) for f in noise.Noise().check(seen)]
    assert found == [("note", f"{crowded}: alone, calls and PyTorch may take less time")] * bool(crowded)
