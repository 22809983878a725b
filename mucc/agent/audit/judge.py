"""The judge's process: owns inputs, results and the clock while a candidate runs, and compares afterwards.

Of a candidate's process it knows a socket and shared memory alone. Nothing expected is computed before that
process has ended. Imports torch.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from mucc.agent.audit import values
from mucc.agent.audit.cases import Case
from mucc.agent.audit.clocks import CpuClock, CudaClock
from mucc.agent.audit.gate import ARMED_S, AWAKE, BYTES, COPIED, DONE, HANDED, READY, Ended, Gate, pin
from mucc.agent.audit.gate import NAME as FLAGS
from mucc.agent.audit.inputs import drift, make_inputs, sampled
from mucc.agent.audit.masking import WORD, Masking
from mucc.agent.audit.noise import waited_ns
from mucc.agent.audit.referee import Given, Referee
from mucc.agent.audit.results import Results, descriptions, padded, room_for
from mucc.agent.audit.rooms import Room, Wire, make
from mucc.agent.audit.slots import Slot
from mucc.agent.isolation.line import Line
from mucc.agent.isolation.server import SHARED
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import error_to_json, limit_process
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

SPOT = 1 << 12
"""Elements of each result that are read at once when it is handed over, at places that are drawn then."""

RESULTS = "results"


CALM = 0.02
"""Slack for the mark that inputs are ready, as a share of the usual time from the key until then. A call
whose mark comes later is timed from the usual time on."""

CALM_MS = 0.001
"""Further slack for that mark, in ms."""


WARMING = 2
"""Calls of a function that does nothing whose times do not count."""

PATIENCE = 5.0
"""Seconds after which a GPU has not understood the gate."""

MOST_MS = 0.06
"""What a word and its answer take at the most: more is other work."""

DISTURBED = 2.0
"""Times the least of them: a median that is larger was disturbed by other work."""


HANDING = 0.02
"""Slack for handing over results, as a share of what it usually takes."""

HANDING_MS, HANDING_CPU_MS = 0.002, 0.01
"""Further slack for that in ms, on a GPU and on a CPU."""

CLEARED = 5
"""How often caches are cleared to see what that takes."""


class Times(NamedTuple):
    """One call in ms by the judge's clock: until it returned, until its results were handed over, and what it
    takes at the most to hand over as much."""

    returned: float
    handed: float
    copied: float


THREADS = 2
"""Of the judge on the host beside a GPU: who waits for more of them waits for other work too."""


class HiddenSlot(Slot):
    """Inputs in main memory that nobody else has."""

    def allocate(self, sizes: Sequence[int], device: Any) -> list[Any]:
        return super().allocate(sizes, "cpu")


class LentSlot(Slot):
    """Inputs in memory that the candidate's process has as well; until they are shown there, their values are
    the judge's alone."""

    def __init__(self, name: str, wire: Wire):
        super().__init__()
        self.name, self.wire = name, wire
        self.room: Room | None = None
        self.lent = 0
        self.hidden = HiddenSlot()

    def allocate(self, sizes: Sequence[int], device: Any) -> list[Any]:
        room, fd = make(sum(map(padded, sizes)))
        self.wire.lend(self.name, room, fd)
        self.lent += 1
        self.room = room
        found, at = list[Any](), 0
        for size in sizes:
            found.append(room.data[at : at + size])
            at += padded(size)
        return found

    def fill(self, values: Any, byte: int) -> None:
        self.hidden.fill(values, byte)
        self.lay_out(values)

    def show(self) -> None:
        """Put the values where the candidate's process sees them."""
        for own, hidden in zip(self.guarded, self.hidden.guarded, strict=True):
            own.copy(hidden)

    def image(self, device: Any) -> Any:
        """Return on a device what shared memory would hold."""
        assert self.room
        image = torch.zeros(self.room.size, dtype=torch.uint8, device=device)
        for own, hidden in zip(self.guarded, self.hidden.guarded, strict=True):
            at = own.buffer.data_ptr() - self.room.start
            image[at : at + own.buffer.numel()].copy_(hidden.buffer)
        return image

    def told(self) -> Json:
        """Return the arguments, with where tensors lie."""
        numbers = {id(own.tensor): n for n, own in enumerate(self.guarded)}

        def tensor(value: Any) -> Json:
            own = self.guarded[numbers[id(value)]]
            assert self.room
            return {
                "at": value.data_ptr() - self.room.start,
                "bytes": own.buffer.numel() - 2 * own.band,
                "band": own.band,
                "dtype": str(value.dtype).removeprefix("torch."),
                "shape": list(value.shape),
                "strides": list(value.stride()),
            }

        return values.told(list(self.values), tensor)


class Judge:
    """Inputs, results and times of one candidate, and the reference."""

    def __init__(self, request: Json, wire: Wire):
        self.device = torch.device(request["device"])
        self.memory = int(request["memory"])
        limit_process(self.memory, addresses=self.device.type == "cpu", files=self.memory)
        if self.device.type == "cuda":
            torch.set_num_threads(THREADS)
        self.wire = wire
        gc.freeze()  # torch's modules are no garbage: series collect what came since only
        self.referee = Referee(request)
        self.problem = self.referee.problem
        self.slots: dict[int, LentSlot] = {}
        self.results: Room | None = None
        self.older: list[Room] = []
        self.given: list[Given] = []
        self.overhead = 0.0
        self.waited = 0
        self.gate: Gate | None = None
        self.by_words = False
        """Whether a GPU does not understand the gate, and words are told as on a CPU."""
        self.ready_ns = 0
        self.begun: list[int] = []
        self.cleared: list[int] = []
        self.left: list[int] = []
        self.host_clock = CpuClock() if self.device.type == "cpu" else None
        self.clock: CudaClock | None = None
        self.masking: Masking | None = None
        self.reset: Callable[[], int] | None = None
        """Have lines of the cache that somebody has set aside be like others."""
        self.usually_cleared = 0.0
        self.handing: list[tuple[int, float]] = []
        """Bytes of results, and what handing them over took in ms, before the candidate was loaded."""

    def arguments(self) -> Json:
        """Return the arguments of the module. Raises MU7012 for what cannot be handed over."""
        try:
            return {"init": values.told(self.problem.init_inputs(), values.packed)}
        except values.NotPlain as error:
            raise self._cannot("get_init_inputs()", error) from None

    def _cannot(self, what: str, error: values.NotPlain) -> DiagnosticError:
        said = f"{what} of {self.referee.shown} gives a {error}, which cannot be handed to another process"
        helps = ("arguments are tensors, numbers, strings, and lists, tuples and dicts of them",)
        return DiagnosticError(Diagnostic("MU7012", said, helps=helps))

    def fill(self, case: Case) -> Json:
        """Show the inputs of a case to the candidate's process, and tell where they are."""
        told = self._prepared(case)
        self.slots[case.slot].show()
        return told

    def _prepared(self, case: Case) -> Json:
        """Make the inputs of a case, and tell where they are going to be."""
        slot = self.slots.setdefault(case.slot, LentSlot(str(case.slot), self.wire))
        before = slot.lent
        slot.fill(make_inputs(self.problem, case, self.device), case.guard)
        try:
            args = slot.told()
        except values.NotPlain as error:
            raise self._cannot("get_inputs()", error) from None
        return {
            "slot": case.slot,
            "args": args,
            "seed": case.call,
            "lent": slot.lent - before,
        }

    def room(self, described: Sequence[Json]) -> Json:
        """Have room for such results; tell how much memory was lent for that."""
        size = room_for(described, self.memory)
        if self.results is not None and size <= self.results.size:
            return {"lent": 0}
        room, fd = make(size)
        if self.results is not None:
            self.older.append(self.results)  # a GPU knows its address
        self.results = room
        self.wire.lend(RESULTS, room, fd)
        if self.device.type == "cpu":
            return {"lent": 1}
        pin(room)
        if self.gate is not None or self.by_words:
            return {"lent": 1}
        driver = ctypes.CDLL("libcuda.so.1")
        try:
            self.clock, self.masking = CudaClock(self.device), Masking(driver)
        except RuntimeError:
            self.by_words = True
            return {"lent": 1}
        self.reset = getattr(driver, "cuCtxResetPersistingL2Cache", None)
        flags, fd = make(BYTES)
        self.wire.lend(FLAGS, flags, fd)
        self.gate = Gate(flags)
        return {"lent": 2}

    def take(self, case: Case, described: Sequence[Json]) -> Json:
        """Keep the results that were handed over, and say whether inputs are what they were."""
        slot = self.slots[case.slot]
        self.given.append(Given(case, list(described), self._taken(case, described)))
        return {
            "inputs_changed": [n for n, g in enumerate(slot.guarded) if g.changed()],
            "bands_changed": [n for n, g in enumerate(slot.guarded) if g.bands_changed()],
        }

    def _taken(self, case: Case, described: Sequence[Json]) -> list[Any]:
        if self.results is None:
            return [None] * len(described)
        read = Results(self.results.data).read(described)
        return [None if v is None else sampled(v, case.sample, case.most).clone() for v in read]

    # Times

    def series(self, cases: Sequence[Case], budget: float, fewest: int) -> Json:
        """Time calls, each on inputs of its own; stop when that took the budget in seconds, and `fewest`
        calls are made. Say the times in ms."""
        self.begun.clear()
        self.cleared.clear()
        self.left.clear()
        self.waited = 0
        self.wire.drain()
        told: list[Times] = []
        late: list[str] = []
        bands: set[int] = set()
        until = time.monotonic() + budget
        gc.collect()
        gc.disable()
        try:
            for n, case in enumerate(cases):
                if n >= fewest and time.monotonic() >= until:
                    break
                times, changed = self._timed(case)
                told.append(times)
                if changed:
                    late.append(case.name)
                if self.gate is None:  # else shared memory has masked inputs
                    own = self.slots[case.slot].guarded
                    bands |= {k for k, g in enumerate(own) if g.bands_changed()}
        except (Ended, OSError, ValueError, RecursionError):
            if self.gate is not None:
                self.gate.release()
            return {"ended": True, "times": [list(t) for t in told]}
        finally:
            gc.enable()
            with suppress(OSError):
                self.wire.send(b"E")
        return {
            "times": [list(t) for t in told],
            "late": late,
            "bands_changed": sorted(bands),
            "overhead": self.overhead,
            "waited": self.waited / 1e6,
            "cleared": [self.usually_cleared, _least(self.cleared), _least(self.left)],
        }

    def calibrate(self, case: Case, count: int, results: int) -> Json:
        """Measure what it costs to call a function that does nothing, and returns so many bytes, before a
        candidate is loaded."""
        cases = [replace(case, slot=0) for _ in range(count)]
        if self.gate is not None:
            self.gate.patience = PATIENCE
        found = self.series(cases, 60.0, count)
        if self.gate is not None:
            self.gate.patience = float("inf")
        self.given.clear()
        if found.get("ended") and self.gate is not None:
            self.gate, self.by_words = None, True
            return {"refused": True}
        times = found["times"][WARMING:]
        if times and not self.handing:
            self.overhead = _calm([returned for returned, *_ in times])
            if self.device.type == "cpu":
                self.overhead = min(self.overhead, MOST_MS)
            self.ready_ns = sorted(self.begun)[len(self.begun) // 2] if self.begun else 0
            self.usually_cleared = _least(self.cleared)
        if times:
            self.handing.append((results, _calm([handed - returned for returned, handed, _ in times])))
        self.older += [self.results] if self.results else []
        self.results = None  # or all of its memory would be looked at after each call
        return {"ended": bool(found.get("ended")), "overhead": self.overhead}

    def clear_again(self) -> Json:
        """Say what clearing the caches takes, in ms, when the candidate's process has ended."""
        return {"ms": _least([self._clear() for _ in range(CLEARED)])} if self.clock else {"ms": 0.0}

    def _handing_ms(self, described: Sequence[Json], copied: int) -> float:
        """Return what it takes at the most to hand over results: on a GPU a line through what was measured
        before the candidate was loaded, on a CPU what the judge has just needed to copy them, and its own
        time."""
        if not self.handing:
            return copied / 1e6
        (small, least), *more = self.handing
        if self.device.type == "cpu" or not more:
            return (1 + HANDING) * (copied / 1e6 + min(least, MOST_MS)) + HANDING_CPU_MS
        (large, most), *_ = more
        size = room_for(described, self.memory)
        slope = max(most - least, 0.0) / (large - small)
        return (1 + HANDING) * (least + slope * max(size - small, 0)) + HANDING_MS

    def _timed(self, case: Case) -> tuple[Times, bool]:
        said = self._prepared(replace(case, drift=0))
        told = {"slot": said["slot"], "args": said["args"], "seed": said["seed"]}
        if self.gate is not None:
            told["number"] = self.gate.next()
        self.wire.send(json.dumps(told).encode())
        self._expect(b"R")
        if self.host_clock is not None:
            self.host_clock.flush()
        if self.gate is not None:
            started, returned, handed = self._gated(case, self.gate)
        else:
            started, returned, handed = self._handed(case)
        spots = self._spots()
        if self.gate is not None:
            self.left.append(self._clear())
        described = descriptions(json.loads(self._heard()))
        begun = time.perf_counter_ns()
        held = None if self.results is None else self.results.data.clone()
        copied = time.perf_counter_ns() - begun
        changed = False
        if held is not None and spots is not None:
            places, read = spots
            changed = not torch.equal(held[places], read)
        got = [None] * len(described)
        if held is not None:
            flat = Results(held).read(described)
            got = [None if v is None else sampled(v, case.sample, case.most).clone() for v in flat]
        self.given.append(Given(case, described, got))
        returned, handed = ((t - started) / 1e6 for t in (returned, handed))
        return Times(returned, handed, self._handing_ms(described, copied)), changed

    def _shown(self, case: Case) -> None:
        """Show the inputs of a timed call, as late as can be, and change them once more where they lie: the
        time to copy them gives nobody a start."""
        slot = self.slots[case.slot]
        slot.show()
        for own, hidden in zip(slot.guarded, slot.hidden.guarded, strict=True):
            for _ in range(case.drifts):
                drift(own.tensor)
                drift(hidden.tensor)

    def _masked(self, case: Case) -> tuple[int, int]:
        """Show the inputs of a timed call behind a mask; return its key."""
        slot = self.slots[case.slot]
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
        """Have a call made on a CPU: when it began, returned, and handed over, in ns."""
        self._shown(case)
        now: Callable[[], int] = time.perf_counter_ns
        send, expect = self.wire.send, self._expect
        before = waited_ns()
        started = now()
        send(b"G")
        expect(b"D")
        returned = now()
        expect(b"C")
        handed = now()
        self.waited += waited_ns() - before
        return started, returned, handed

    def _gated(self, case: Case, gate: Gate) -> tuple[int, int, int]:
        """Have a call made on a GPU; see `gate`."""
        key = self._masked(case)
        self.wire.send(b"G")
        armed = True
        try:
            if self.wire.receive(ARMED_S) != b"D":
                raise Ended
        except TimeoutError:
            armed = False
        gate.open()
        gate.seen(COPIED, self._alive)
        self.cleared.append(self._clear())
        gate.cold()
        gate.seen(AWAKE, self._alive)
        keyed = gate.keyed(key)
        ready, done, handed = (gate.seen(which, self._alive) for which in (READY, DONE, HANDED))
        if not armed:
            self._expect(b"D")
        self.begun.append(ready - keyed)
        if self.ready_ns:
            ready = min(ready, keyed + int(self.ready_ns * (1 + CALM) + CALM_MS * 1e6))
        return ready, done, handed

    def _clear(self) -> int:
        """Have the caches of the GPU hold something else; return what that took in ns."""
        assert self.clock
        started = time.perf_counter_ns()
        if self.reset is not None:
            self.reset()
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
            raise Ended

    def _spots(self) -> tuple[Any, Any] | None:
        """Read bytes at places that nobody could know."""
        if self.results is None:
            return None
        places = torch.randint(0, self.results.size, (min(SPOT, self.results.size),))
        return places, self.results.data[places]

    def _expect(self, word: bytes) -> None:
        if self._heard() != word:
            raise Ended

    def _heard(self) -> bytes:
        data = self.wire.receive()
        if data in (b"", b"X"):
            raise Ended
        return data

    # Verdicts

    def judged(self, number: int) -> Json:
        """Compare the results of a call."""
        return self.referee.judge(self.given[number])


def _calm(times: list[float]) -> float:
    """Return the median, or the least time where other work has disturbed that."""
    ordered = sorted(times)
    middle, least = ordered[len(ordered) // 2], ordered[0]
    return middle if middle < DISTURBED * least else least


def _least(ns: Sequence[int]) -> float:
    """Return the least of times, which other work has disturbed least, in ms; 0 where there are none."""
    return min(ns) / 1e6 if ns else 0.0


def hello() -> Json:
    """Return the devices that can be audited on here."""
    from mucc.api.machine import no_gpu

    reason = no_gpu()
    card = "" if reason else torch.cuda.get_device_name()
    return {"cuda": reason is None, "reason": reason, "card": card}


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    judge: Judge | None = None
    for request in line.requests():
        try:
            line.say(_answer(judge := judge or _opened(request), request))
        except DiagnosticError as error:
            line.say({"errors": error_to_json(error)})


def _opened(request: Json) -> Judge | None:
    return Judge(request, Wire(SHARED)) if request["do"] == "open" else None


def _answer(judge: Judge | None, request: Json) -> Json:
    if request["do"] == "hello":
        return hello()
    assert judge
    match request["do"]:
        case "open":
            return judge.arguments()
        case "fill":
            return judge.fill(Case(**request["case"]))
        case "room":
            return judge.room(request["outputs"])
        case "take":
            return judge.take(Case(**request["case"]), request["outputs"])
        case "series":
            cases = [Case(**c) for c in request["cases"]]
            return judge.series(cases, request["budget"], request["fewest"])
        case "calibrate":
            return judge.calibrate(Case(**request["case"]), request["count"], request["results"])
        case "clear":
            return judge.clear_again()
        case "judge":
            return judge.judged(request["number"])
        case "facts":
            return judge.referee.facts(known=request["known"])
        case "time":
            return {"ms": judge.referee.timed(request["runs"])}
        case other:
            raise ValueError(f"no request: {other}")
