"""Write a trace of launches as Chrome trace events, which Perfetto shows: `mucc run --trace FILE`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mucc.measure.profile import StageTime

_HOST, _DEVICE = 1, 2
"""The tracks of the trace."""


class Launch(NamedTuple):
    """A launch in a call: when the device began and ended it, and when the host made it, in microseconds."""

    stage: str
    start_us: float
    end_us: float
    host_us: float

    @property
    def time_us(self) -> float:
        return self.end_us - self.start_us


def trace(
    kernel: str,
    card: str,
    dims: Mapping[str, int],
    calls: Sequence[Sequence[Launch]],
    stages: Sequence[StageTime],
) -> str:
    """Print calls as JSON: a track of the host with instants of launches, and one of the device with slices.

    A slice has the kernel's kind, bytes, bound, and the share of its time that the bound is.
    """
    known = {stage.name: stage for stage in stages}
    events: list[dict[str, Any]] = [
        _named("process_name", 0, f"{kernel} on {card}"),
        _named("thread_name", _HOST, "host: launches"),
        _named("thread_name", _DEVICE, "device: kernels"),
    ]
    for number, call in enumerate(calls):
        for launch in call:
            given: dict[str, Any] = {"call": number}
            if (stage := known.get(launch.stage)) is not None:
                given |= {"kind": stage.kind, "bytes": stage.bytes, "bound_us": stage.bound_us}
                given |= {
                    "bound_by": stage.binding,
                    "GB/s": stage.bytes / launch.time_us / 1e3 if launch.time_us else 0,
                }
                given["share_of_bound"] = stage.bound_us / launch.time_us if launch.time_us else 0
            place = {"pid": 1, "cat": "mucc", "name": launch.stage}
            events.append(
                place | {"ph": "i", "s": "t", "tid": _HOST, "ts": launch.host_us, "args": {"call": number}}
            )
            slice = {"ph": "X", "tid": _DEVICE, "ts": launch.start_us, "dur": launch.time_us, "args": given}
            events.append(place | slice)
    head = {"kernel": kernel, "card": card, "dims": dict(dims)}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": head}, indent=1) + "\n"


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 1, "tid": track, "name": kind, "args": {"name": name}}
