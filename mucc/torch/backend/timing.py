"""Time calls on the GPU, as CUDA graphs where they can be recorded and from a cold L2, or calls in a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from mucc.torch.importer.capture import torch

Call = Callable[[], Any]

WARM = 3
FEWEST, MOST = 7, 25
"""Turns that are timed."""
ENOUGH_MS = 60.0
"""GPU time of all turns together, at which no further one begins."""

BLOCKS, BLOCK_SECONDS, LONGEST_BLOCK = 5, 0.02, 50
"""The fewest blocks of calls in a row, the seconds that a block should take, and the most calls of one."""
MOST_BLOCKS, AGREEMENT = 25, 0.005
"""The most blocks, and how far the two least times of a call may differ for no further one to begin."""


def seconds_of(calls: Sequence[Call]) -> list[float]:
    """Return the median GPU seconds of each call. Raises what the calls raise, RuntimeError without a GPU."""
    if not torch.cuda.is_available():
        raise RuntimeError("regions are measured on a GPU")
    recorded = [_recorded(call) for call in calls]
    # A read: a write would leave lines in L2 that the call after it has to write back.
    flush = torch.zeros(_cache_bytes(), dtype=torch.float32, device="cuda").amax
    times: list[list[float]] = [[] for _ in calls]
    spent = 0.0
    for turn in range(MOST):
        for call, own in zip(recorded, times, strict=True):
            flush()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in "be")
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            own.append(begin.elapsed_time(end))
            spent += own[-1]
        if turn + 1 >= FEWEST and spent > ENOUGH_MS:
            break
    return [median(own) / 1e3 for own in times]


def row_seconds(calls: Sequence[Call]) -> list[float]:
    """Return the seconds of each call where calls of it follow each other, on any device.

    The least time of several blocks counts, which take turns: other work of the host only adds to them. On a
    busy host that is a chance value until a second block confirms it, so that blocks follow until the two
    least ones of each call agree.
    """
    counts: list[int] = []
    for call in calls:
        for _ in range(WARM):
            call()
        counts.append(max(2, min(LONGEST_BLOCK, int(BLOCK_SECONDS / _elapsed(call, 1)))))
    times: list[list[float]] = [[] for _ in calls]
    for block in range(MOST_BLOCKS):
        for call, count, own in zip(calls, counts, times, strict=True):
            own.append(_elapsed(call, count))
        if block + 1 >= BLOCKS and all(map(_agree, times)):
            break
    return [min(own) / n for own, n in zip(times, counts, strict=True)]


def _agree(times: Sequence[float]) -> bool:
    """Whether the least time was reached twice."""
    least, second = sorted(times)[:2]
    return second - least <= AGREEMENT * least


def _elapsed(call: Call, count: int) -> float:
    """Return the seconds until the GPU has done a number of calls."""
    _finish()
    start = time.perf_counter()
    for _ in range(count):
        call()
    _finish()
    return max(time.perf_counter() - start, 1e-9)


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _cache_bytes() -> int:
    return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size


def _recorded(call: Call) -> Call:
    """Return a call as a CUDA graph, or as it is if it does what a graph cannot hold."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            call()
    except RuntimeError:
        torch.cuda.synchronize()
        return call
    return graph.replay
