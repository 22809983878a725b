"""The stop rules of searches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mucc.agent.budget.stopping import best_and_waiting, stop_reason
from mucc.agent.core.strategy import Budget

TIMES = st.lists(st.none() | st.floats(0.1, 10.0), min_size=1, max_size=60)


def test_nothing_stops_before_the_baseline_is_beaten():
    budget = Budget(epsilon=10.0, window=1)
    assert stop_reason(budget, [2.0, 2.0, 2.0], 1.0, 1.5) == ""
    assert stop_reason(budget, [1.4], 1.0, 1.5) == "within 1000% of the speed of light"


def test_a_window_without_progress():
    budget = Budget(window=3)
    assert stop_reason(budget, [1.0, 0.9, None, 1.0], 0.1, 2.0) == ""
    assert stop_reason(budget, [1.0, 0.9, None, 1.0, 0.8999], 0.1, 2.0) == "no progress in 3 attempts"


@given(TIMES)
def test_the_number_of_attempts_ends_every_search(times: list[float | None]):
    stopped = stop_reason(Budget(), times, None, None)
    assert bool(stopped) == (len(times) > 40)


@given(TIMES)
def test_the_best_is_the_least_that_counts(times: list[float | None]):
    best, since = best_and_waiting(times)
    assert best == min((t for t in times if t is not None), default=None)
    assert 0 <= since <= len(times)


@given(TIMES, st.floats(0.0, 5.0), st.floats(0.0, 5.0))
def test_a_wider_epsilon_stops_no_later(times: list[float | None], one: float, other: float):
    narrow, wide = sorted((one, other))
    if stop_reason(Budget(epsilon=narrow), times, 0.5, 5.0):
        assert stop_reason(Budget(epsilon=wide), times, 0.5, 5.0)
