"""The judge's clock: times calls in the candidate's process, each on inputs of its own. Imports torch."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import secrets
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from mucc.agent.audit.cases import Case
from mucc.agent.audit.clocks import CpuClock, CudaClock
from mucc.agent.audit.described import aliases, dense_share, descriptions, room_for
from mucc.agent.audit.gate import ARMED_S, AWAKE, BYTES, COPIED, DONE, HANDED, READY, Ended, Gate, pin
from mucc.agent.audit.gate import NAME as FLAGS
from mucc.agent.audit.inputs import drift
from mucc.agent.audit.lending import Lender
from mucc.agent.audit.masking import WORD, Masking
from mucc.agent.audit.moments import moments
from mucc.agent.audit.noise import MOST_MS, waited_ns
from mucc.agent.audit.peeks import Peek
from mucc.agent.audit.referee import Given
from mucc.agent.audit.results import copy
from mucc.agent.audit.rooms import make
from mucc.agent.audit.threads import few
from mucc.agent.audit.times import Times, calm, least_ms
from mucc.agent.isolation.line import Line
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

SPOT = 1 << 12
"""Bytes of each result that are read first when it is handed over, at places that are drawn then."""

CALM = 0.02
"""Slack for the mark that inputs are ready, as a share of the usual time from the key until then. A call
whose mark comes later is timed from the usual time on."""

CALM_MS = 0.001
"""Further slack for that mark, in ms."""


WARMING = 2
"""Calls of a function that does nothing whose times do not count."""

ANSWERING = 30.0
"""Seconds after which a runner does not say what takes no work of the solution: something took the word."""

CLOSED = "ended, or closed its connection to the judge"
"""What a process did that sends nothing any more, as the end of a sentence."""

PATIENCE = 5.0
"""Seconds after which a GPU has not understood the gate."""

HANDING, HANDING_CPU = 0.02, 0.1
"""Slack for handing over results, as a share of what it usually takes, on a GPU and on a CPU."""

HANDING_MS, HANDING_CPU_MS = 0.002, 0.01
"""Further slack for that in ms, on a GPU and on a CPU."""

CLEARED, PAUSE = 12, 0.0015
"""How often caches are cleared to see what that takes, and seconds in between: other processes get the GPU
for 1 to 2 ms in turn, and a kernel that comes after a pause waits for them."""

OFTEN = 3
"""So many of these tries are slow where another process uses the GPU; a single one is slow where the host has
other work."""


class Stopwatch:
    """Times the calls of one candidate; what these return is added to `given`."""

    def __init__(self, lender: Lender, given: list[Given], line: Line):
        self.lender, self.given, self.line = lender, given, line
        self.wire, self.device = lender.wire, lender.device
        self.overhead = self.measured = 0.0
        """What a call of nothing takes in ms: as much as is taken off, and as it was measured."""
        self.waited = 0
        self.gate: Gate | None = None
        self.by_words = False
        """Whether a GPU does not understand the gate, and words are told as on a CPU."""
        self.ready_ns = 0
        self.begun: list[int] = []
        self.cleared: list[int] = []
        self.left: list[int] = []
        self.forged: list[str] = []
        """Calls that were marked as done before they could begin."""
        self.host_clock = CpuClock() if self.device.type == "cpu" else None
        self.clock: CudaClock | None = None
        self.masking: Masking | None = None
        self.reset: Callable[[], int] | None = None
        """Have lines of the cache that somebody has set aside be like others."""
        self._places = torch.Generator().manual_seed(secrets.randbits(63))
        self._held: Any = None
        """A copy of the memory of results."""
        self.peek = Peek(line)
        self.usually_cleared = 0.0
        self.usual: list[float] = []
        """What calls took so far that were not watched, in ms."""
        self.host: list[float] = []
        """What the host took of them before the GPU could begin."""
        self.handing: list[tuple[int, float]] = []
        """Bytes of results, and what handing them over took in ms, before the candidate was loaded."""

    def room(self, described: Sequence[Json]) -> int:
        """Have memory for such results, and on a GPU a gate; return how much memory was lent for that."""
        room = self.lender.room(described)
        if room is None:
            return 0
        if self.device.type == "cpu":
            return 1
        pin(room)
        if self.gate is not None or self.by_words:
            return 1
        driver = ctypes.CDLL("libcuda.so.1")
        try:
            self.clock, self.masking = CudaClock(self.device), Masking(driver)
        except RuntimeError:
            self.by_words = True
            return 1
        self.reset = getattr(driver, "cuCtxResetPersistingL2Cache", None)
        flags, fd = make(BYTES)
        self.wire.lend(FLAGS, flags, fd)
        self.gate = Gate(flags)
        return 2

    def series(self, cases: Sequence[Case], budget: float, fewest: int) -> Json:
        """Time calls, each on inputs of its own; stop when that took the budget in seconds, and `fewest`
        calls are made. Say the times in ms."""
        self.begun.clear()
        self.cleared.clear()
        self.left.clear()
        self.forged.clear()
        self.peek.unready.clear()
        self.waited = 0
        self.wire.drain()
        told: list[Times] = []
        late: list[str] = []
        bands: set[int] = set()
        modified: set[int] = set()
        aliased: set[int] = set()
        until = time.monotonic() + budget
        gc.collect()
        gc.disable()
        try:
            for n, case in enumerate(cases):
                if n >= fewest and time.monotonic() >= until:
                    break
                times, changed = self._timed(case)
                told.append(times)
                if not case.watched:
                    self.usual.append(times.counted)
                if changed:
                    late.append(case.name)
                aliased |= aliases(self.given[-1].described)
                if self.gate is None:  # else shared memory has masked inputs
                    slot = self.lender.slots[case.slot]
                    bands |= {k for k, g in enumerate(slot.guarded) if g.bands_changed()}
                    pairs = zip(slot.guarded, slot.hidden.guarded, strict=True)
                    modified |= {k for k, (g, hidden) in enumerate(pairs) if g.differs(hidden)}
        except (Ended, OSError, ValueError, MemoryError, RecursionError) as error:
            if self.gate is not None:
                self.gate.release()
            silent = ANSWERING if isinstance(error, TimeoutError) else 0.0
            return {"ended": _why(error), "silent": silent, "times": [list(t) for t in told]}
        finally:
            gc.enable()
            with suppress(OSError):
                self.wire.send(b"E")
        return {
            "times": [list(t) for t in told],
            "late": late,
            "unready": list(self.peek.unready),
            "bands_changed": sorted(bands),
            "modified": sorted(modified),
            "aliased": sorted(aliased),
            "overhead": self.overhead,
            "waited": self.waited / 1e6,
            "forged": list(self.forged),
            "cleared": [self.usually_cleared, least_ms(self.cleared), least_ms(self.left)],
        }

    def calibrate(self, case: Case, count: int, results: int) -> Json:
        """Measure what it costs to call a function that does nothing, or starts the smallest of kernels
        (`deduct`), and returns so many bytes, before a candidate is loaded."""
        cases = [replace(case, slot=0) for _ in range(count)]
        if self.gate is not None:
            self.gate.patience = PATIENCE
        found = self.series(cases, 60.0, count)
        if self.gate is not None:
            self.gate.patience = float("inf")
        self.given.clear()
        self.usual.clear()
        self.host.clear()
        if found.get("ended") and self.gate is not None:
            self.gate, self.by_words = None, True
            return {"refused": True}
        times = [Times(*t) for t in found["times"][WARMING:]]
        if times and not self.handing:
            self.overhead = calm([t.returned for t in times])
            self.measured = self.overhead
            if self.device.type == "cpu" or self.gate is not None:
                self.overhead = min(self.overhead, MOST_MS)
            self.ready_ns = sorted(self.begun)[len(self.begun) // 2] if self.begun else 0
            self.usually_cleared = least_ms(self.cleared)
        if times:
            self.handing.append((results, calm([t.handed - t.returned for t in times])))
        self.lender.forget_results()  # or all of its memory would be looked at after each call
        return {"ended": found.get("ended"), "overhead": self.overhead, "measured": self.measured}

    def deduct(self, us: float) -> Json:
        """Take what the kernel that stood for a candidate's takes itself from what nothing takes."""
        if self.gate is not None:
            self.overhead = max(self.overhead - us / 1e3, 0.0)
        return {}

    def clear_again(self) -> Json:
        """Say what clearing the caches takes at the least, and what a quarter of the tries took or more, in
        ms, when the candidate's process has ended."""
        took = list[int]()
        for _ in range(CLEARED if self.clock else 0):
            time.sleep(PAUSE)
            took.append(self._clear())
        return {"ms": least_ms(took), "often": sorted(took)[-OFTEN] / 1e6 if took else 0.0}

    def _handing_ms(self, described: Sequence[Json], copied: int) -> float:
        """Return what it takes at the most to hand over results: on a GPU a line through what was measured
        before the candidate was loaded, on a CPU what the judge has just needed to copy them, and its own
        time."""
        if not self.handing:
            return copied / 1e6
        (small, least), *more = self.handing
        if self.device.type == "cpu" or not more:
            written = copied / 1e6 * dense_share(described)
            return (1 + HANDING_CPU) * (written + min(least, MOST_MS)) + HANDING_CPU_MS
        (large, most), *_ = more
        size = room_for(described, self.lender.memory)
        slope = max(most - least, 0.0) / (large - small)
        return (1 + HANDING) * (least + slope * max(size - small, 0)) + HANDING_MS

    def _timed(self, case: Case) -> tuple[Times, bool]:
        said = self.lender.prepare(replace(case, drift=0))
        told = {"slot": said["slot"], "args": said["args"]}
        if self.gate is not None:
            told |= {"number": self.gate.next(), "seed": said["seed"]}
        self.wire.send(json.dumps(told).encode())
        self._expect(b"R", ANSWERING)
        if self.gate is None:
            self._flushed()
        with few(self.lender.size(case)):
            return self._measured(case)

    def _flushed(self) -> None:
        """Let the candidate's process wait for a call. On a CPU, then stop it and flush the caches.

        A thread that is not stopped could read weights back into the caches, and flushing would take a
        processor from it.
        """
        self.wire.send(b"W")
        self._expect(b"A", ANSWERING)
        if self.host_clock is not None:
            self._stop()
            self.host_clock.flush()

    def _measured(self, case: Case) -> tuple[Times, bool]:
        """Have a call made; its times, and whether results changed after they had been handed over."""
        if self.gate is not None:
            started, returned, handed = self._gated(case, self.gate)
        else:
            started, returned, handed = self._handed(case)
        spots = self._spots()
        if self.gate is not None:
            self.left.append(self._clear())
        described = descriptions(json.loads(self._heard()))
        held, copied = self._copied()
        changed = False
        if held is not None and spots is not None:
            places, read = spots
            changed = not torch.equal(held[places], read)
            self.peek.compare(case.name, described, held)
        with _memory_for_results():
            kept = self.lender.kept(case, described, held)
        self.given.append(Given(case, described, kept))
        returned, handed = ((t - started) / 1e6 for t in (returned, handed))
        return Times(returned, handed, self._handing_ms(described, copied), started), changed

    def _copied(self) -> tuple[Any, int]:
        """Copy the memory of results, and return what that takes in ns; on a CPU the candidate's process is
        stopped, which could make it slow."""
        results = self.lender.results
        if results is None:
            return None, 0
        if self.host_clock is not None:
            self._stop()
        with _memory_for_results():
            held = self._room_like(results.data)
        begun = time.perf_counter_ns()
        copy(held, results.data)
        copied = time.perf_counter_ns() - begun
        if self.host_clock is not None:
            self.line.say({"go": True})
            self.line.heard()
        return held, copied

    def _room_like(self, data: Any) -> Any:
        """Return memory of the same size that was written before.

        Memory that results are handed over in was written before, too; writing new memory takes several times
        as long.
        """
        if self._held is None or self._held.numel() != data.numel():
            self._held = torch.zeros_like(data).fill_(1)
        return self._held

    def _stop(self) -> None:
        """Have the parent stop the candidate's process."""
        self.line.say({"hold": True})
        self.line.heard()

    def _shown(self, case: Case) -> None:
        """Show the inputs of a timed call, as late as can be, and change them once more where they lie: the
        time to copy them gives nobody a start."""
        slot = self.lender.slots[case.slot]
        slot.show()
        for own, hidden in zip(slot.guarded, slot.hidden.guarded, strict=True):
            for _ in range(case.drifts):
                drift(own.tensor)
                drift(hidden.tensor)

    def _masked(self, case: Case) -> tuple[int, int]:
        """Show the inputs of a timed call behind a mask; return its key."""
        slot = self.lender.slots[case.slot]
        for hidden in slot.hidden.guarded:
            for _ in range(case.drifts):
                drift(hidden.tensor)
        key = secrets.randbits(64), secrets.randbits(64)
        if slot.room is not None:
            assert self.masking
            image = slot.image(self.device)
            halves = [half - (half >> 63 << 64) for half in key]
            held = torch.tensor(halves, dtype=torch.int64, device=self.device)
            self.masking.apply(image.data_ptr(), image.data_ptr(), image.numel() // WORD, held.data_ptr())
            slot.room.data.copy_(image)
        return key

    def _handed(self, case: Case) -> tuple[int, int, int]:
        """Have a call made by words: when it began, returned, and handed over, in ns.

        On a CPU the parent has stopped the candidate's process before its inputs come, so that no thread of
        it follows them, and the call begins when that may go on. The seed of what the call draws itself comes
        with the word to start: else it could be drawn before.
        """
        stopped = self.host_clock is not None
        self._shown(case)
        now: Callable[[], int] = time.perf_counter_ns
        expect = self._expect
        before = waited_ns()
        started = now()
        self.wire.send(b"G%d" % case.call)
        if stopped:
            looks = moments(self.usual) if case.watched else []
            self.line.say({"go": True, "name": case.name, "look": looks})
        try:
            said = self._heard()
            returned = now()
            if said[:1] != b"D":
                raise Ended(f"sent {said[:20]!r} to the judge where b'D' was due")
            if stopped and case.watched:
                self.peek.ask(said[1:])
            expect(b"C")
            handed = now()
        finally:
            if stopped:
                self.line.say({"done": True})
                started = int(self.line.heard()["at"])
                self.peek.hear()
        self.waited += waited_ns() - before
        return started, returned, handed

    def _gated(self, case: Case, gate: Gate) -> tuple[int, int, int]:
        """Have a call made on a GPU; see `gate`."""
        key = self._masked(case)
        looks = moments(self.host) if case.watched else []
        self.line.say({"begins": case.name})
        self.line.heard()
        started = time.perf_counter_ns()
        self.wire.send(b"G")
        if looks:
            self.line.say({"look": looks, "name": case.name})
        armed = True
        try:
            self._expect(b"D", ARMED_S)
        except TimeoutError:
            armed = False
        if not case.watched:
            self.host.append((time.perf_counter_ns() - started) / 1e6)
        gate.open()
        gate.seen(COPIED, self._alive)
        self.cleared.append(self._clear())
        gate.cold()
        gate.seen(AWAKE, self._alive)
        if any(map(gate.is_marked, (READY, DONE, HANDED))):
            self.forged.append(case.name)
        keyed = gate.keyed(key)
        ready, done, handed = (gate.seen(which, self._alive) for which in (READY, DONE, HANDED))
        self.line.say({"ends": True})
        if not armed:
            self._expect(b"D")
        self.begun.append(ready - keyed)
        if self.ready_ns:
            ready = min(ready, keyed + int(self.ready_ns * (1 + CALM) + CALM_MS * 1e6))
        return ready, done, handed

    def _clear(self) -> int:
        """Have the caches of the GPU hold something else; return what that took in ns.

        The reset of lines that were set aside takes longer where some are, and is not counted.
        """
        assert self.clock
        if self.reset is not None:
            self.reset()
        started = time.perf_counter_ns()
        self.clock.flush()
        self.clock.wait()
        return time.perf_counter_ns() - started

    def _alive(self) -> None:
        """Raise where the candidate's process has ended or failed."""
        try:
            said = self.wire.peek()
        except BlockingIOError:
            return
        if said in (b"", b"X"):
            raise Ended(CLOSED)

    def _spots(self) -> tuple[Any, Any] | None:
        """Read bytes of each result at places that are drawn now; None without results.

        They are drawn by a generator of their own: inputs show the state of the one that made them.
        """
        results = self.lender.results
        if results is None:
            return None
        places = torch.cat(
            [
                torch.randint(start, end, (min(SPOT, end - start),), generator=self._places)
                for start, end in self.lender.ranges or [(0, results.size)]
            ]
        )
        return places, results.data[places]

    def _expect(self, word: bytes, seconds: float | None = None) -> None:
        """Wait for a word. Raises Ended where another one comes, TimeoutError where none does in time."""
        if (data := self._heard(seconds)) != word:
            raise Ended(f"sent {data[:20]!r} to the judge where {word!r} was due")

    def _heard(self, seconds: float | None = None) -> bytes:
        data = self.wire.receive(seconds)
        if data in (b"", b"X"):
            raise Ended(CLOSED)
        return data


@contextmanager
def _memory_for_results() -> Generator[None]:
    """Raise MemoryError where PyTorch says that there is no memory: results may be of any size."""
    try:
        yield
    except RuntimeError as error:
        raise MemoryError(str(error)) from None


def _why(error: Exception) -> str:
    """Return what a candidate's process did instead of answering, as the end of a sentence."""
    if isinstance(error, Ended):
        return str(error) or "gave no answer"
    if isinstance(error, TimeoutError):
        return f"gave no answer for {ANSWERING:g} s"
    if isinstance(error, MemoryError):
        return f"handed over what the judge has no memory for: {error}"
    return CLOSED if isinstance(error, OSError) else "described its results in a way that is none"
