"""Times that other work on the machine disturbed, which reject no solution."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, note, unsure
from mucc.agent.audit.noise import CONFIDENCE, interval, is_steady
from mucc.agent.audit.observations import Observations


class Noise:
    """How well the median of the times is known."""

    name = "noise"
    looks_at = "the spread of times, and how long threads waited for a processor"

    def check(self, seen: Observations) -> Iterator[Finding]:
        timing = seen.timing
        if not timing.calls:
            return
        if timing.is_disturbed:
            yield note(
                self.name,
                "other work kept processors busy: the time is that of the calls that were disturbed least;"
                f" threads waited for a processor for {timing.busy:.0%} of the calls' time",
                busy=timing.busy,
            )
        elif not is_steady(timing.calls):
            low, high = interval(timing.calls)
            yield unsure(
                self.name,
                f"times vary: the median is between {low:.4g} and {high:.4g} ms ({CONFIDENCE:.0%});"
                f" {timing.crowded or 'other work disturbs'}: audit again when the machine does less",
                low_ms=low,
                high_ms=high,
            )
        elif timing.crowded:
            yield note(self.name, f"{timing.crowded}: alone, calls and PyTorch may take less time")
