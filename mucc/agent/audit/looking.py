"""The parent's looks at the candidate's process while that is stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mucc.agent.audit.cases import Case
from mucc.agent.audit.places import Look, computing
from mucc.agent.isolation.process import Child
from mucc.api.processes import Place

SPIN = 1e-3
"""Seconds before a moment in which the clock is watched: who sleeps wakes up late."""

AT_REST_NS = 100_000
"""Time of processors that a process may take in ns after it was seen to be stopped: what it takes to stop."""


class Seen(NamedTuple):
    """Where the threads of the candidate's process were when it had been stopped, in ns of the clock, in a
    call; None where the system did not tell."""

    case: str
    ns: int
    threads: list[list[Place]] | None


class Looker:
    """Stops a process, and sees from outside what it does.

    `is_open` says whether the system told what the process runs before a solution was loaded, None before the
    process was stopped. `restless` are the timed calls before which it ran while it was stopped.
    """

    def __init__(self, child: Child):
        self.child = child
        self.is_open: bool | None = None
        self.restless: list[str] = []
        self._seen: list[Seen] = []
        self._spent = 0

    def open(self) -> None:
        """Find out whether the system tells what the process runs. It has not loaded a solution yet."""
        if self.is_open is None:
            self.child.pause()
            self.is_open = self.child.working() is not None
            self.child.resume()

    def stop(self) -> None:
        """Stop the process for inputs to come, or for results to be read."""
        self.child.pause()
        self._spent = self.child.spent_ns()

    def start(self, case: str) -> int:
        """Let it go on with a timed call; return when it did, in ns of the clock."""
        if self.child.spent_ns() - self._spent > AT_REST_NS:
            self.restless.append(case)
        return self.child.resume()

    def look(self, case: str, started: int, moments: Sequence[float]) -> None:
        """Stop the process at moments in ms from the start of a call, and keep where its threads are."""
        stopped = 0
        for ms in moments if self.is_open else ():
            until = started + stopped + int(ms * 1e6)
            while (left := until - time.perf_counter_ns()) > 0:
                time.sleep(max(left / 1e9 - SPIN, 0.0))
            begun = time.perf_counter_ns()
            self.child.pause()
            at_rest = time.perf_counter_ns()
            self._seen.append(Seen(case, at_rest, self.child.working()))
            stopped += self.child.resume() - begun

    def taken(self, calls: Sequence[tuple[Case, Sequence[float]]], gpu: bool = False) -> Iterator[Look]:
        """Take what was seen of calls while these lasted; they come with their times (`timing.Times`), which
        on a GPU are not those of the host."""
        found, self._seen = self._seen, []
        ends = {
            case.name: began + max(handed - copied, returned) * 1e6
            for case, (returned, handed, copied, began) in calls
        }
        for seen in found:
            if seen.threads is None:
                yield Look(seen.case, hidden=True)
            elif seen.threads and (gpu or seen.ns < ends.get(seen.case, 0.0)):  # else all threads wait
                yield Look(seen.case, computing(seen.threads))
