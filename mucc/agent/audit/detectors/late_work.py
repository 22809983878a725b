"""Work that goes on when a call has returned: other streams, threads, processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from mucc.agent.audit.findings import Finding, minor, reject
from mucc.agent.audit.observations import Observations

SLACK_MS = 0.05
"""What waiting for the device costs the host."""

SHARE = 0.25
"""Of the time by events: how much longer the device may be busy."""


PAUSES = (0.0, 0.0, 0.0, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds before each series of calls that looks for late work."""

LEAST = 3
"""Series that are made in any case."""


def excess(times: tuple[float, float]) -> float:
    """By how much more than is tolerated the device was busy for longer than the current stream, in ms."""
    by_event, whole = times
    return whole - by_event - SLACK_MS - SHARE * by_event


def looked_for(series: Callable[[], tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the times in ms of several series of calls: of the current stream, and until the device was
    idle.

    Where others use the GPU, too, such as solutions that compile, one series says nothing against a solution.
    So there are more, for some seconds, until one shows no late work.
    """
    found: list[tuple[float, float]] = []
    for pause in PAUSES:
        if len(found) >= LEAST and min(map(excess, found)) <= 0:
            break
        time.sleep(pause)
        found.append(series())
    return found


class LateWork:
    """What the clock of the current stream does not see."""

    name = "late_work"
    looks_at = "results after a pause, threads, processes, and when the whole device is idle"

    def check(self, seen: Observations) -> Iterator[Finding]:
        late = [c.case.name for c in seen.calls if c.late]
        if late:
            yield reject(
                self.name,
                f"the result still changed after the call had returned: {', '.join(late)}",
                cases=late,
            )
        if threads := sorted({t for c in seen.calls for t in c.threads}):
            yield reject(self.name, f"other threads were in {', '.join(threads)} after the call had returned")
        if started := sorted({s for c in seen.calls for s in c.started}):
            yield reject(self.name, f"a call starts processes: {', '.join(started)}")
        if kinds := sorted({o.subclass for c in seen.calls for o in c.outputs if o.subclass}):
            yield reject(self.name, f"returns {', '.join(kinds)}, which may compute when somebody looks")
        yield from self._device(seen)

    def _device(self, seen: Observations) -> Iterator[Finding]:
        if not seen.timing.whole:
            return
        least = by_event, whole = min(seen.timing.whole, key=excess)
        if excess(least) > 0:
            yield reject(
                self.name,
                f"the device was busy for {whole:.4g} ms, the current stream for {by_event:.4g} ms only",
                event_ms=by_event,
                device_ms=whole,
            )
            return
        streams = {w.stream for c in seen.calls for w in c.work if w.kind == "kernel"}
        if len(streams) > 1:
            yield minor(self.name, f"kernels run on {len(streams)} streams", streams=sorted(streams))
