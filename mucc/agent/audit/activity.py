"""Records of what a GPU ran in a call: kernels, copies and fills, each with its stream and times.

The profiler's times of all streams are of one clock, the GPU's. A mark is a kernel that the runner starts
when the call has returned, on a stream that waits for the default stream. Where everything that a call starts
on other streams is joined, by an event or by waiting on the host, all of it ends before the mark starts,
however busy the machine is.

A kernel that spins keeps the default stream at work while a call is put there. What waits for the default
stream, as it does for inputs, starts after the end of that kernel, however busy the machine is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mucc.api.json_types import Json

MARK = "aten::nextafter_"
"""The operation that starts the mark: one small kernel, and hardly anybody else's."""


SPIN = "spin_kernel"
"""What is in the name of the kernel that the runner starts before a call, so that the stream is at work when
the call begins, as it is when calls are timed."""

RESOLVED_US = 5.0
"""Work that ends so much later than the mark was not joined, and work that starts so much before the end of
the kernel that spins did not wait for the default stream; the margin is for the resolution of times."""


class Activity(NamedTuple):
    """One record of the profiler about the device; times in ns.

    `parent` is the ATen operation that started it, empty where none did.
    """

    name: str
    parent: str
    stream: int
    start: int
    end: int


def device_rows(records: Iterable[Activity], queued: bool = False) -> list[Json]:
    """Return rows of `Work`, one for each name, parent and stream.

    The last record of `MARK` is the mark, and is left out; without one nothing is known to be late. Left out
    is also the first of `SPIN`. That kernel ran until the call had returned where the call is `queued`.
    """
    found = list(records)
    spins = [r for r in found if SPIN in r.name and not r.parent]
    begins = _begins(spins)
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
            "early_us": _early_us(same, begins, queued),
        }
        for (name, parent, stream), same in rows.items()
    ]


def _late_us(records: Sequence[Activity], mark: Activity | None) -> float:
    """Return how long after the start of the mark the last of the records ended."""
    if mark is None:
        return 0.0
    return round(max(0, max(r.end for r in records) - mark.start) / 1e3, 3)


def _begins(spins: Iterable[Activity]) -> dict[int, int]:
    """Return for each stream the end of its first kernel that spins, in ns.

    The runner's is on the default stream; one that the solution starts on a stream of high priority may come
    before it, and tells nothing of other streams.
    """
    found: dict[int, int] = {}
    for spin in sorted(spins, key=lambda r: r.start):
        found.setdefault(spin.stream, spin.end)
    return found


def _early_us(records: Sequence[Activity], begins: Mapping[int, int], queued: bool) -> float | None:
    """Return by how many us the first of these records, of one stream, started before the spin kernel ended;
    None where none did, and others may have been put there after that."""
    ends = [end for stream, end in begins.items() if stream != records[0].stream]
    if early := max([0, *(end - min(r.start for r in records) for end in ends)]):
        return round(early / 1e3, 3)
    return 0.0 if begins and (queued or not ends) else None
