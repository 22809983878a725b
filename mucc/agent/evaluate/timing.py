"""Time calls from a cold cache, on a GPU by device events. Imports torch where it is called."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import Any

PROBE = 2
"""Calls from which the number of further calls is derived."""

LEAD_US = 500.0
"""Microseconds of work on the GPU before short calls, while a host busy with compilers launches them."""

SHORT_MS = 2.0
"""Milliseconds below which a call is short."""

STEADY = 0.05
"""The distance of the quartiles over the median below which a series is accepted."""

TRIES = 3
"""The number of series of which the steadiest is taken where none is accepted."""

PAUSE = 0.1
"""Seconds before each further series."""

WARM = 2
"""Calls on a CPU that are not timed."""

Calls = Mapping[str, Callable[[], Any]]


def interleaved_ms(calls: Calls, runs: int, device: Any, lead_us: float = 0.0) -> dict[str, list[float]]:
    """Measure `runs` calls of each contender in ms, in turns; for `lead_us` see `interleaved_us`."""
    if device.type == "cuda":
        from mucc.api.measure import interleaved_us

        found = interleaved_us(list(calls.values()), runs, device, lead_us)
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
    """Measure in as many calls as take about `budget_ms` for all; return the steadiest of some series."""
    once = interleaved_ms(calls, PROBE, device)
    shortest = min(median(times) for times in once.values())
    each = max(sum(median(times) for times in once.values()), 1e-3)
    runs = min(most, max(fewest, int(budget_ms / each)))
    found: list[tuple[float, dict[str, list[float]]]] = []
    while len(found) < TRIES:
        series = interleaved_ms(calls, runs, device, LEAD_US if shortest < SHORT_MS else 0.0)
        found.append((max(spread(times) / median(times) for times in series.values()), series))
        if found[-1][0] <= STEADY:
            break
        time.sleep(PAUSE)
    return min(found, key=lambda f: f[0])[1]


def spread(times: list[float]) -> float:
    """Return the distance of the quartiles; 0 for fewer than two times."""
    if len(times) < 2:
        return 0.0
    lower, _, upper = quantiles(times, n=4, method="inclusive")
    return upper - lower
