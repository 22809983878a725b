"""Timing of kernels that are compared with each other, by device events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

FLUSH_BYTES = 256 * 2**20
"""More than any L2 holds, and the host gets ahead while it is written: no launch overhead is timed."""


def time_all(torch: Any, contenders: Mapping[str, Callable[[], Any]], iters: int) -> dict[str, float]:
    """Median device time in ms of each contender; they take turns so that all see the same clocks."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    for call in contenders.values():
        for _ in range(5):
            call()
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(iters):
        for name, call in contenders.items():
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            samples[name].append(start.elapsed_time(end))
    return {name: statistics.median(values) for name, values in samples.items()}


def card(torch: Any, device: Any = None) -> str:
    """A directory name for a GPU, the current one where none is named: `h200`."""
    return torch.cuda.get_device_name(device).split()[-1].lower()


def gpu_versions(torch: Any) -> dict[str, str]:
    """What a result on a GPU says about its surroundings."""
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": torch.cuda.get_device_name()}
