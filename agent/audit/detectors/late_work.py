"""Work that goes on when a call has returned: other streams, threads, processes."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, minor, reject
from mucc.agent.audit.observations import Observations

SLACK_MS = 0.05
"""What waiting for the device costs the host."""

SHARE = 0.25
"""Of the time by events: how much longer the device may be busy."""


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
        by_event, whole = min(seen.timing.whole, key=lambda pair: pair[1] - pair[0])
        if whole - by_event > SLACK_MS + SHARE * by_event:
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
