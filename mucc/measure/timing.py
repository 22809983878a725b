"""Times of launches by device events. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

from mucc.measure.trace import Launch
from mucc.runtime.launches import called_at_launches

torch: Any = importlib.import_module("torch")

WARM = 3
"""Launches of each contender that are not timed."""


CYCLES_PER_US = 1_800
"""Of a GPU's clock, about."""

LEAD_US = 500
"""Microseconds of work on the GPU before each measured call, while the host queues the call's launches."""


def interleaved_us(
    launches: Sequence[Callable[[], Any]], runs: int, device: Any, lead_us: float = 0.0
) -> list[list[float]]:
    """Measure `runs` single launches of each contender, in microseconds, each with a cold L2.

    Contenders take turns, so that all see the same clocks, and every other round goes backwards. L2 is
    flushed by a read of other memory: a write would leave lines that the launch after it has to write back,
    50 MB of them on an H200. The read also keeps the GPU busy while the host gets ahead, so that no launch
    overhead is timed; `lead_us` gives the host about so much longer, where its processors are busy.
    """
    size = torch.cuda.get_device_properties(device).L2_cache_size
    flush = torch.zeros(size, dtype=torch.float32, device=device).amax  # four times as many bytes
    for launch in launches:
        for _ in range(WARM):
            launch()
    pairs: list[list[tuple[Any, Any]]] = [[] for _ in launches]
    turns = list(zip(launches, pairs, strict=True))
    for i in range(runs):
        for launch, found in turns if i % 2 == 0 else reversed(turns):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if lead_us:
                torch.cuda._sleep(int(lead_us * CYCLES_PER_US))
            flush()
            start.record()
            launch()
            end.record()
            found.append((start, end))
    torch.cuda.synchronize(device)
    return [[start.elapsed_time(end) * 1e3 for start, end in found] for found in pairs]


def measured_calls(launch: Callable[[], Any], library: Path, runs: int, device: Any) -> list[list[Launch]]:
    """Measure each launch inside some calls, each call with a cold L2 before it.

    An event is recorded before each launch and one behind the last, so a launch counts until the next one
    begins; the GPU is kept busy meanwhile, so that it does not wait for the host.
    """
    size = torch.cuda.get_device_properties(device).L2_cache_size
    flush = torch.zeros(size, dtype=torch.float32, device=device).amax
    calls: list[list[tuple[str, Any, float]]] = []

    def mark(stage: str) -> None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        calls[-1].append((stage, event, perf_counter() * 1e6))

    for _ in range(WARM):
        launch()
    torch.cuda.synchronize(device)
    first = torch.cuda.Event(enable_timing=True)
    first.record()
    begin = perf_counter() * 1e6
    with called_at_launches(library, mark):
        for _ in range(runs):
            calls.append([])
            torch.cuda._sleep(LEAD_US * CYCLES_PER_US)
            flush()
            launch()
            mark("")
    torch.cuda.synchronize(device)
    return [
        [
            Launch(stage, first.elapsed_time(start) * 1e3, first.elapsed_time(end) * 1e3, host - begin)
            for (stage, start, host), (_, end, _) in pairwise(call)
        ]
        for call in calls
    ]


def times_by_stage(calls: Sequence[Sequence[Launch]]) -> dict[str, list[float]]:
    """Return the time of each stage in each call, in microseconds by its name."""
    found: dict[str, list[float]] = {}
    for call in calls:
        once: dict[str, float] = {}
        for launch in call:
            once[launch.stage] = once.get(launch.stage, 0.0) + launch.time_us
        for stage, time in once.items():
            found.setdefault(stage, []).append(time)
    return found
