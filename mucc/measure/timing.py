"""Times of launches by device events. Imports torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

torch: Any = importlib.import_module("torch")

WARM = 3
"""Launches of each contender that are not timed."""


CYCLES_PER_US = 1_800
"""Of a GPU's clock, about."""


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
