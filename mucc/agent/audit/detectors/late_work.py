"""Work that goes on when a call has returned: other streams, threads, processes."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.activity import RESOLVED_US
from mucc.agent.audit.findings import Finding, minor, note, reject, unless_crowded, unsure
from mucc.agent.audit.noise import delayed
from mucc.agent.audit.observations import Observations, Work

FORKED = 2
"""Timed calls that are stopped and have processes then which they have started: in one it may be chance."""


class LateWork:
    """What the clock of the current stream does not see."""

    name = "late_work"
    looks_at = (
        "results right when a call returns and after a pause, threads, processes, kernels that end after a"
        " call, and the judge's own kernel after it"
    )

    def check(self, seen: Observations) -> Iterator[Finding]:
        late = [c.case.name for c in seen.calls if c.late]
        if late:
            yield reject(
                self.name,
                f"the result still changed after the call had returned: {', '.join(late)}",
                cases=late,
            )
        if seen.timing.late:
            yield reject(
                self.name,
                f"results changed after they were handed over: {', '.join(seen.timing.late)}",
                cases=list(seen.timing.late),
            )
        if seen.timing.unready:
            yield reject(
                self.name,
                f"results were not there when calls had returned: {', '.join(seen.timing.unready)}",
                cases=list(seen.timing.unready),
            )
        deferred, calls = seen.timing.deferred, len(seen.timing.calls)
        if calls and deferred > calls / 2:
            # A thread that waits for a processor, or a copy that waits for the GPU, looks the same.
            yield (note if seen.timing.is_disturbed or seen.timing.crowded else minor)(
                self.name,
                f"in {deferred} of {calls} calls fetching the results took longer than to copy them: counted",
                deferred=deferred,
            )
        if threads := sorted({t for c in seen.calls for t in c.threads}):
            said = f"other threads were in {', '.join(threads)} after the call had returned"
            yield (minor if seen.correct and not late else reject)(self.name, said)
        if started := sorted({s for c in seen.calls for s in c.started}):
            yield reject(self.name, f"a call starts processes: {', '.join(started)}")
        forked = sorted({look.case for look in seen.looks if look.started})
        if len(forked) >= FORKED:
            said = f"timed calls start processes, of which Python does not tell: {', '.join(forked)}"
            yield reject(self.name, said, cases=forked)
        if kinds := sorted({o.subclass for c in seen.calls for o in c.outputs if o.subclass}):
            yield reject(self.name, f"returns {', '.join(kinds)}, which may compute when somebody looks")
        yield from self._device(seen)

    def _device(self, seen: Observations) -> Iterator[Finding]:
        if left := _left_behind(seen):
            cases = {name: sorted({w.name for w in work}) for name, work in left.items()}
            most = max(w.late_us for work in left.values() for w in work)
            yield (reject if len(left) > 1 else unsure if seen.timing.crowded else minor)(
                self.name,
                f"kernels ran for up to {most:.4g} us after the default stream was done with the call:"
                f" {', '.join(left)}",
                cases=cases,
                late_us=most,
            )
            if len(left) > 1:
                return
        before, during, left_ms, after = seen.timing.cleared
        if delayed(left_ms, before, after) and not delayed(during, before, after):
            found = reject(
                self.name,
                "the GPU was at work when results had been handed over: clearing its caches took"
                f" {left_ms:.3g} ms, {during:.3g} ms before calls",
                left_ms=left_ms,
                usual_ms=max(before, after),
            )
            yield unless_crowded(found, seen.timing.crowded)
            return
        streams = seen.streams
        if len(streams) < 2 or left:
            return
        said = f"kernels run on {len(streams)} streams"
        if not seen.timing.crowded or seen.tells_turns:
            yield minor(self.name, said, streams=streams)
            return
        told = sum(call.tells_turn for call in seen.amid)
        yield unsure(
            self.name,
            f"{said}, and {told} of {len(seen.amid)} calls tell whether these wait for inputs;"
            f" {seen.timing.crowded}: audit again when the GPU has no other work",
            streams=streams,
        )


def _left_behind(seen: Observations) -> dict[str, list[Work]]:
    """Return what ran on the GPU when the default stream was done with a call, for each call that has any."""
    found = {
        c.case.name: [w for w in c.work if w.kind == "kernel" and w.late_us > RESOLVED_US]
        for c in seen.observed
    }
    return {name: work for name, work in found.items() if work}
