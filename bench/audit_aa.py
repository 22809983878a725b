"""Measure how often the audit's test finds two series of times of the same kernel different (A/A).

    python -m bench.audit_aa --device cpu [--series 400] [--runs 30] [--seconds 60]

Series of calls are timed as the audit times its reference, caches cleared before each call. Each has the
interval for its median (`agent/audit/noise.py`); two that follow one another are different where their
intervals are disjoint, which by the test's confidence happens in at most 2 of 100 pairs. Series that are not
steady do not count, as no verdict rests on them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from math import comb
from typing import Any

from bench.audit import card_of
from bench.common import at_least_one, run_main, versions, write_result
from mucc.agent.audit.noise import CONFIDENCE, interval, is_steady

WARM = 20
"""Calls before those that count."""

SURE = 0.95
"""Confidence of the bound on a rate."""


def series_of(device: str, numbers: int, count: int, runs: int, seconds: float) -> list[list[float]]:
    """Time additions of a number to a vector; return at most `count` series of `runs` times in ms.

    The vector has `numbers` elements of f32. No series begins after `seconds`.
    """
    torch: Any = importlib.import_module("torch")
    from mucc.agent.audit.clocks import clock

    watch = clock(torch.device(device))
    x = torch.rand(numbers, device=device)
    found: list[list[float]] = []
    until = time.monotonic() + seconds

    def times(calls: int) -> list[float]:
        for _ in range(calls):
            watch.flush()
            watch.begin()
            x.add(1.0)
            watch.end()
        return [t.ms for t in watch.times()]

    times(WARM)
    while len(found) < count and time.monotonic() < until:
        found.append(times(runs))
    return found


def upper_bound(count: int, of: int) -> float:
    """Return the upper bound of a rate, with confidence `SURE`, of which `count` of `of` cases were seen.

    That of Clopper and Pearson: at a higher rate `count` or fewer are seen in less than 1 of 20 samples.
    """
    if count >= of:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        seen = sum(comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(count + 1))
        low, high = (rate, high) if seen > 1 - SURE else (low, rate)
    return high


def summary(name: str, series: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return how often series of one kernel differ, and how often an interval misses the median of all."""
    steady = [interval(times) for times in series if is_steady(times)]
    middle = statistics.median(ms for times in series for ms in times)
    pairs = list(pairwise(steady))
    apart = sum(one[1] < other[0] or other[1] < one[0] for one, other in pairs)
    missed = sum(not low <= middle <= high for low, high in steady)
    found = {
        "ms": round(middle, 5),
        "series": len(series),
        "steady": len(steady),
        "pairs": len(pairs),
        "apart": apart,
        "apart_at_most": round(upper_bound(apart, len(pairs)), 5) if pairs else math.nan,
        "missed": missed,
    }
    return {f"audit_aa.{name}.{key}": value for key, value in found.items()}


def main(argv: Sequence[str] | None = None) -> None:
    """Time additions of each size, and write how often their series differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--series", type=at_least_one, default=400, help="for each kernel, at the most")
    parser.add_argument("--runs", type=at_least_one, default=30)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kernel")
    parser.add_argument("--numbers", type=at_least_one, nargs="+", default=[12_288, 1 << 22])
    args = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    figures: dict[str, float] = {"audit_aa.confidence": CONFIDENCE}
    for numbers in args.numbers:
        series = series_of(args.device, numbers, args.series, args.runs, args.seconds)
        found = summary(f"add_{numbers}", series)
        figures |= found
        rows.append({"numbers": numbers, "intervals_ms": [[*interval(times)] for times in series]})
        print(json.dumps(found), flush=True)
    write_result(
        card_of(args.device), "audit_aa", rows, figures, extra_versions=versions("torch"), module="audit_aa"
    )


if __name__ == "__main__":
    run_main(main)
