"""Records of what a GPU ran in a call: kernels, copies and fills, each with its stream and times.

The profiler's times of all streams are of one clock, the GPU's. A mark is a kernel that the runner starts
when the call has returned, on a stream that waits for the default stream. Where everything that a call starts
on other streams is joined, by an event or by waiting on the host, all of it ends before the mark starts,
however busy the machine is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mucc.api.json_types import Json

MARK = "aten::nextafter_"
"""The operation that starts the mark: one small kernel, and hardly anybody else's."""


SPIN = "spin_kernel"
"""What is in the name of the kernel that the runner starts before a call, so that the stream is at work when
the call begins, as it is when calls are timed."""


class Activity(NamedTuple):
    """One record of the profiler about the device; times in ns.

    `parent` is the ATen operation that started it, empty where none did.
    """

    name: str
    parent: str
    stream: int
    start: int
    end: int


def device_rows(records: Iterable[Activity]) -> list[Json]:
    """Return rows of `Work`, one for each name, parent and stream.

    The last record of `MARK` is the mark, and is left out; without one nothing is known to be late. Left out
    is also the first of `SPIN`.
    """
    found = list(records)
    spins = [r for r in found if SPIN in r.name and not r.parent]
    if spins:
        found.remove(min(spins, key=lambda r: r.start))
    mark = max((r for r in found if r.parent == MARK), key=lambda r: r.start, default=None)
    if mark is not None:
        found.remove(mark)
    rows: dict[tuple[str, str, int], list[Activity]] = {}
    for record in found:
        rows.setdefault((record.name, record.parent, record.stream), []).append(record)
    return [
        {
            "kind": "kernel",
            "name": name[:300],
            "parent": parent,
            "stream": stream,
            "calls": len(same),
            "us": round(sum(r.end - r.start for r in same) / 1e3, 3),
            "late_us": _late_us(same, mark),
        }
        for (name, parent, stream), same in rows.items()
    ]


def _late_us(records: Sequence[Activity], mark: Activity | None) -> float:
    """Return how long after the start of the mark the last of the records ended."""
    if mark is None:
        return 0.0
    return round(max(0, max(r.end for r in records) - mark.start) / 1e3, 3)
