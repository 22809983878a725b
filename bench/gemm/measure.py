"""Errors and times of contenders for one problem, all on the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from bench.timing import time_all

Call = Callable[[], Any]


def error(torch: Any, result: Any, exact: Any) -> float:
    """The largest relative Frobenius distance to the exact results; infinite where anything is not finite."""
    results = cast(Sequence[Any], result) if isinstance(result, tuple) else (result,)
    exacts = cast(Sequence[Any], exact) if isinstance(exact, tuple) else (exact,)
    worst = 0.0
    for got, wanted in zip(results, exacts, strict=True):
        wide = got.double()
        if not bool(torch.isfinite(wide).all()):
            return float("inf")
        worst = max(worst, float((wide - wanted).norm() / wanted.norm()))
    return worst


def captured(torch: Any, call: Call) -> Call:
    """The call as a CUDA graph, so that no contender's host code is timed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def times(torch: Any, contenders: Mapping[str, Call], rounds: int, limit: float = 0.25) -> dict[str, float]:
    """Median device time in ms of each contender.

    They take turns, so that all see the same clocks; L2 is flushed before each call. At most `rounds` turns,
    and fewer where those would take more than `limit` seconds, but at least 7.
    """
    return timed(torch, {name: captured(torch, call) for name, call in contenders.items()}, rounds, limit)


def timed(torch: Any, calls: Mapping[str, Call], rounds: int, limit: float = 0.25) -> dict[str, float]:
    """Return the same of calls that are captured already."""
    first = time_all(torch, calls, 3)
    whole = sum(first.values()) / 1e3 + 1e-4 * len(calls)
    return time_all(torch, calls, max(7, min(rounds, int(limit / whole))))


def copy_bandwidth(torch: Any) -> float:
    """Bytes per second that a copy on the device reads and writes together, at the better of two sizes."""
    best = 0.0
    for size in (2**28, 2**30):
        source = torch.empty(size, dtype=torch.uint8, device="cuda").random_()
        target = torch.empty_like(source)
        ms = times(torch, {"copy": lambda s=source, t=target: t.copy_(s)}, 20)["copy"]
        best = max(best, 2 * size / ms * 1e3)
    return best
