"""Times of calls from a cold cache, on a GPU by device events. Imports torch where it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import Any

PROBE = 2
"""Calls from which it is told how many more there is time for."""

WARM = 2
"""Calls on a CPU that are not timed."""

Calls = Mapping[str, Callable[[], Any]]


def interleaved_ms(calls: Calls, runs: int, device: Any) -> dict[str, list[float]]:
    """Times in ms of `runs` calls of each contender, in turns."""
    if device.type == "cuda":
        from mucc.runtime.timing import interleaved_us

        found = interleaved_us(list(calls.values()), runs, device)
        return {name: [us / 1e3 for us in times] for name, times in zip(calls, found, strict=True)}
    from mucc.agent.audit.clocks import clock

    watch, times = clock(device), {name: list[float]() for name in calls}
    for turn in range(WARM + runs):
        for name, call in calls.items():
            watch.flush()
            watch.begin()
            call()
            watch.end()
            (timed,) = watch.times()
            if turn >= WARM:
                times[name].append(timed.ms)
    return times


def within(calls: Calls, budget_ms: float, fewest: int, most: int, device: Any) -> dict[str, list[float]]:
    """The same, in as many calls as take about `budget_ms` for all together."""
    once = interleaved_ms(calls, PROBE, device)
    each = max(sum(median(times) for times in once.values()), 1e-3)
    return interleaved_ms(calls, min(most, max(fewest, int(budget_ms / each))), device)


def spread(times: list[float]) -> float:
    """The distance of the quartiles; 0 of less than two times."""
    if len(times) < 2:
        return 0.0
    lower, _, upper = quantiles(times, n=4, method="inclusive")
    return upper - lower
