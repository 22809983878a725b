"""Work in processes that the solution has started, of which no profiler tells anything."""

from __future__ import annotations

from collections.abc import Iterator

from mucc.agent.audit.findings import Finding, reject
from mucc.agent.audit.observations import Observations

OFTEN, FEWEST = 1 / 3, 3
"""The share of timed calls that are not watched, and their number, in which other processes work; in fewer
they may have work of their own."""


class OtherProcesses:
    """Whether processes that the solution has started work in timed calls and not between them."""

    name = "other_processes"
    looks_at = "time of processors that other processes of the solution take in timed calls and between them"

    def check(self, seen: Observations) -> Iterator[Finding]:
        helped = seen.timing.helped
        calls = sum(not call.case.watched for call in seen.timed)
        if len(helped) >= max(FEWEST, OFTEN * calls):
            yield reject(
                self.name,
                "processes that the solution has started work in timed calls, where nothing tells what they"
                f" compute: {', '.join(helped[:6])}",
                cases=list(helped),
            )
