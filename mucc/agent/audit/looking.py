"""The parent's looks at the candidate's process while that is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from mucc.agent.audit.cases import Case
from mucc.agent.audit.places import PYTORCHS, Look, computing
from mucc.agent.audit.times import Times
from mucc.agent.isolation.process import Child
from mucc.api.processes import Place

SPIN = 1e-3
"""Seconds before a moment in which the clock is watched: who sleeps wakes up late."""

AT_REST_NS = 100_000
"""Time of processors that a process may take in ns after it was seen to be stopped: what it takes to stop."""

SEARCHES = 8
"""The most searches for code of no file in PyTorch's files, each of which takes a tenth of a second."""

TIMES, MORE_NS = 2.0, 50_000
"""Processes that the candidate's has started work in a call where they take more than so many times the time
of processors that they usually take between calls, and so many ns more."""

WAKING_NS = 100_000
"""The most of that usual time in ns that counts, for each process: who works between calls hides no work."""


SETTLING = 20.0
"""The most seconds to wait for processes that the candidate's has started to be at rest: workers of a
compiler load their libraries for some seconds, in timed calls as well as between them."""

STEP, RESTS, STEPS = 0.05, 0.05, 3
"""Processes are at rest when, in each of `STEPS` steps of `STEP` seconds, they ran or waited for a processor
for at most the share `RESTS`."""


class Seen(NamedTuple):
    """Where the threads of the candidate's process were when it had been stopped, in ns of the clock, in a
    call; None where the system did not tell."""

    case: str
    ns: int
    threads: list[list[Place]] | None
    started: bool = False
    """Whether there were processes that were not there when the call began."""


class Looker:
    """Stops a process, and sees from outside what it does.

    `is_open` says whether the system told what the process runs before a solution was loaded, None before the
    process was stopped. `restless` are the timed calls before which it ran while it was stopped, or processes
    that it has started did.
    """

    def __init__(self, child: Child):
        self.child = child
        self.is_open: bool | None = None
        self.restless: list[str] = []
        self._seen: list[Seen] = []
        self._spent = 0
        self._helpers = Helpers(child)
        self._pytorchs: list[str] = []
        """Libraries of PyTorch."""
        self._searches = SEARCHES

    @property
    def helped(self) -> list[str]:
        """The timed calls in which processes worked that the candidate's has started."""
        return self._helpers.busy()

    def open(self) -> None:
        """Find out whether the system tells what the process runs. It has not loaded a solution yet."""
        if self.is_open is None:
            self.child.pause()
            self.is_open = self.child.working() is not None
            self._pytorchs = [path for path in self.child.libraries() if PYTORCHS.search(path)]
            self.child.resume()

    def stop(self) -> None:
        """Stop the process for inputs to come, or for results to be read."""
        self.child.pause()
        self._spent = self.child.spent_ns()
        self._helpers.stopped()

    def start(self, case: str) -> int:
        """Let it go on with a timed call; return when it did, in ns of the clock."""
        if self.child.spent_ns() - self._spent > AT_REST_NS or self.child.escaped():
            self.restless.append(case)
        self._helpers.go_on(case)
        return self.child.resume()

    def begins(self, case: str) -> None:
        """Say that a call begins that nobody stops: one on a GPU."""
        self._helpers.stopped()
        self._helpers.go_on(case)

    def ended(self) -> None:
        """Say that such a call has ended."""
        self._helpers.stopped()
        self._helpers.go_on(None)

    def settle(self) -> None:
        """Wait until the processes that the candidate's has started are at rest, for at most `SETTLING` s."""
        self._helpers.settle()

    def go_on(self) -> int:
        """Let it go on without a call; return when it did."""
        self._helpers.go_on(None)
        return self.child.resume()

    def look(
        self, case: str, started: int, moments: Sequence[float], ended: Callable[[], bool] = lambda: False
    ) -> None:
        """Stop the process at moments in ms from the start of a call, and keep where its threads are, until
        the call has `ended`."""
        stopped = 0
        for ms in moments if self.is_open else ():
            self._helpers.forget()
            _wait(started + stopped + int(ms * 1e6), ended)
            if ended():
                return
            begun = time.perf_counter_ns()
            self.child.pause()
            at_rest = time.perf_counter_ns()
            started_some = not self._helpers.known.issuperset(self.child.helpers())
            self._seen.append(Seen(case, at_rest, self.child.working(), started_some))
            stopped += self.child.resume() - begun

    def read(self, places: Sequence[tuple[int, int]]) -> list[str | None]:
        """Stop the process, and return what lies at addresses of it, so many bytes each, in hexadecimal
        digits; nothing where the system does not tell what the process runs."""
        if not self.is_open:
            return []
        self._helpers.forget()
        self.child.pause()
        found = self.child.read(places)
        self.child.resume()
        return found

    def taken(self, calls: Sequence[tuple[Case, Times]], gpu: bool = False) -> Iterator[Look]:
        """Take what was seen of calls before they ended.

        Calls come with their times, which on a GPU are not those of the host.
        """
        taken, self._seen = self._seen, []
        ends = {case.name: times.began + times.counted * 1e6 for case, times in calls}
        for seen in taken:
            if seen.threads is None:
                yield Look(seen.case, hidden=True)
            elif seen.threads and (gpu or seen.ns < ends.get(seen.case, 0.0)):  # else all threads wait
                found = computing(seen.threads, self._originals(seen.threads))
                yield Look(seen.case, found, started=seen.started)

    def _originals(self, threads: Sequence[Sequence[Place]]) -> Sequence[str]:
        """Return the files that code in no file may be a copy of."""
        if not self._searches or not any(places and places[0].code for places in threads):
            return ()
        self._searches -= 1
        return self._pytorchs


class Helpers:
    """The processes that the candidate's has started, and the time of processors that they take in calls and
    between these, in ns: each that is stopped takes some when it goes on."""

    def __init__(self, child: Child):
        self.child = child
        self.in_calls: list[tuple[str, int, int]] = []
        self.between: list[int] = []
        self._call: str | None = None
        self._pids: list[int] = []
        self._spent = 0
        self.known = frozenset[int]()
        """The processes that were there when they went on."""

    def go_on(self, call: str | None) -> None:
        """Say that all go on, with a timed call or after one."""
        self._call, self._pids = call, self.child.helpers()
        self.known = frozenset(self._pids)
        self._spent = self.child.spent_ns(*self._pids) if self._pids else 0

    def stopped(self) -> None:
        """Say that all are stopped."""
        pids, self._pids = self._pids, []
        if not pids:
            return
        took = self.child.spent_ns(*pids) - self._spent
        if self._call is None:
            self.between.append(took)
        else:
            self.in_calls.append((self._call, took, len(pids)))

    def settle(self) -> None:
        """Wait until all are at rest."""
        until, rests = time.monotonic() + SETTLING, 0
        pids = self.child.helpers()
        while pids and rests < STEPS and time.monotonic() < until:
            wanted = self.child.demand_ns(*pids)
            time.sleep(STEP)
            at_rest = abs(self.child.demand_ns(*pids) - wanted) <= RESTS * STEP * 1e9
            before, pids = pids, self.child.helpers()
            rests = rests + 1 if at_rest and pids == before else 0

    def forget(self) -> None:
        """Forget when they went on: a call that is stopped amid wakes them once more."""
        self._pids = []

    def busy(self) -> list[str]:
        """Return the calls in which they took more than between calls."""
        usual = median(self.between) if self.between else 0.0
        return [
            call
            for call, took, processes in self.in_calls
            if took > TIMES * min(usual, WAKING_NS * processes) + MORE_NS
        ]


def _wait(until: int, ended: Callable[[], bool]) -> None:
    """Wait until a moment in ns of the clock, or until a call has `ended`."""
    while (left := until - time.perf_counter_ns()) > 0 and not ended():
        if left > SPIN * 1e9:
            time.sleep(min(left / 1e9 - SPIN, SPIN))
