"""Calls that the profiler looks at amid timed ones, and what decides a time."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.audit.auditing import _Audit  # pyright: ignore[reportPrivateUsage]
from mucc.agent.audit.cases import AMID, WARM, Case, amid_case, divided, timed_cases
from mucc.agent.audit.observations import Call, Comparison, Observations, Reference, Timing, Work, call_from
from mucc.agent.audit.runs import Entry, Run
from mucc.agent.audit.shares import own_share


@given(st.integers(0, 9999), st.integers(0, 60), st.integers(1, 20))
def test_a_series_is_interrupted_where_nobody_knows(seed: int, count: int, sure: int):
    cuts = divided(random.Random(seed), count, sure)
    assert cuts == sorted(set(cuts)) and len(cuts) == (AMID if count > WARM + AMID else 0)
    assert all(WARM < cut < count for cut in cuts)
    assert not cuts or cuts[0] <= max(sure, WARM + 1)


def test_every_call_may_be_interrupted():
    found = {cut for seed in range(400) for cut in divided(random.Random(seed), 34, 9)}
    assert found == set(range(WARM + 1, 34))


def work(name: str, us: float) -> Work:
    return Work("op", name, "", 0, 1, us)


def seen(before: float, amid: float) -> Observations:
    """A candidate of which PyTorch takes a part of the time, before timed calls and amid these."""
    right = Comparison(True)
    cases = [(Case("again", 1, observe=True), before), (Case("back", 2, observe=True), before)]
    cases += [(amid_case(random.Random(n), n), amid) for n in range(2)]
    calls = [Call(c, right, work=(work("aten::mm", 1000 * part),), seconds=1e-3) for c, part in cases]
    return Observations("cpu", "declared", None, calls, [], Timing(), Reference(), None, [], [])


@pytest.mark.parametrize(("before", "amid", "own"), [(0, 0, 1), (0, 0.97, 0.03), (0.8, 0.1, 0.2)])
def test_the_share_is_that_of_calls_amid_timed_ones(before: float, amid: float, own: float):
    assert own_share(seen(before, amid)) == pytest.approx(own)


def test_calls_that_make_the_time_are_all_compared():
    """Of 40 calls that were disturbed, the time is that of the fastest tenth."""
    times = tuple(1.0 + n / 100 for n in range(40))
    timing = Timing(times[20:] + times[:20], busy=0.5)
    assert timing.ms == 1.04 and sorted(timing.decisive) == [20, 21, 22, 23, 24]
    assert Timing(times).decisive == []


class Judged:
    """A trial whose comparisons take very long."""

    def __init__(self) -> None:
        self.rng = random.Random(4)
        self.compared: list[int] = []

    def comparison(self, number: int) -> Comparison:
        self.compared.append(number)
        return Comparison(True)


def test_calls_are_compared_in_their_order_and_at_least_half(monkeypatch: pytest.MonkeyPatch):
    clock = iter(range(0, 10**6, 5))
    monkeypatch.setattr("mucc.agent.audit.auditing.time.monotonic", lambda: float(next(clock)))
    cases = timed_cases(random.Random(1), 0, 34, 9)
    made = [Entry(case, None) for case in cases]
    made.insert(9, Entry(amid_case(random.Random(2), 0), {"outputs": []}))
    plain = [c.name for c in cases if not c.probe]
    run = Run(made=made, decisive=frozenset(plain[-3:]))
    audit: Any = _Audit.__new__(_Audit)
    audit.trial = Judged()
    calls, timed = audit._calls(run)
    assert [c.case.name for c in calls] == ["amid 0"]
    assert audit.trial.compared == sorted(audit.trial.compared) and 9 in audit.trial.compared
    names = {c.case.name for c in timed}
    assert {*plain[-3:], *(c.name for c in cases if c.probe)} <= names and 17 <= len(names) < 30


ODD: list[Any] = [["x"], [[1]], [1.5], "x", {"a": 1}, 7, [None], [2**70, "y"]]


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("name", ["late", "threads", "lines", "raised", "work", "outputs", "bands_changed"])
def test_answers_of_other_forms_are_refused(name: str, value: Any):
    said: dict[str, Any] = {"outputs": (), name: value}
    try:
        found = call_from(Case("c", 1), said, Comparison(True))
    except (TypeError, ValueError, KeyError, AttributeError):
        return
    texts, numbers = (*found.threads, *found.lines), (*found.late, *found.bands_changed)
    assert all(type(t) is str for t in texts) and all(type(n) is int for n in numbers)
