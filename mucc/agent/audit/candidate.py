"""The process of a candidate: loads it and calls it as asked. Imports torch.

It holds nothing worth an attack: inputs come from the judge in shared memory, call by call; results go back
there; no reference, no clock that counts and no verdict is here. What it says of itself (lines, exceptions,
kernels) can only speak against the candidate.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any, cast

from mucc.agent.audit import peeks, tamper, values, watch
from mucc.agent.audit.clocks import clock
from mucc.agent.audit.gate import AWAKE, COLD, COPIED, DONE, HANDED, KEYED, OPEN, READY, Stream, pin
from mucc.agent.audit.gate import NAME as FLAGS
from mucc.agent.audit.inputs import leaves, seed
from mucc.agent.audit.memory import tidy
from mucc.agent.audit.results import Results, snapshot
from mucc.agent.audit.rooms import Room, Wire, place
from mucc.agent.isolation.line import Line
from mucc.agent.isolation.server import SHARED
from mucc.api.importer import limit_process
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

SETTLE = 0.03
"""Seconds in which work that a call has left behind would change its result."""

LISTENING_S = 0.05
"""Seconds in which a word to start is looked for all the time."""

M_PERTURB, PERTURB = -6, 0x80
"""glibc's option that fills memory when it is given out, with a byte's complement: 0x7F7F7F7F is 3e38."""

SMALLEST = "add"
"""What is in the name of the kernel that stands for a candidate's."""

RESULTS = "results"
"""The name of the memory that results go to; that of inputs has the number of its slot."""


class Inputs:
    """The arguments of a call: values, and tensors in memory of the judge, or in a copy of it on a GPU."""

    def __init__(self, data: Any, args: Json):
        self.tensors: list[Any] = []
        self.places: list[tuple[int, int]] = []
        self._data = data
        self.values = values.heard(args, self._tensor)

    def _tensor(self, said: Json) -> Any:
        tensor = place(self._data, said)
        start, band = self._data.data_ptr() + int(said["at"]), int(said["band"])
        self.places.append((start - band, int(said["bytes"]) + 2 * band))
        self.tensors.append(tensor)
        return tensor

    def overlapping(self, start: int, size: int) -> list[int]:
        """Return the inputs that memory is part of."""
        return [
            n for n, (at, own) in enumerate(self.places) if start < at + own and at < start + max(size, 1)
        ]


class Session:
    """The candidate, and what its last calls have returned."""

    def __init__(self, request: Json, wire: Wire):
        self.device = torch.device(request["device"])
        self.wire = wire
        self.path = ""
        self.draws_there = bool(request["draws_there"])
        self.init = values.heard(request["init"], values.unpacked)
        limit_process(request["memory"], addresses=self.device.type == "cpu")
        self.clock = clock(self.device)
        self.rooms: dict[str, Room] = {}
        self.older: list[Room | None] = []
        self.copies: dict[str, Any] = {}
        self.masked: Any = None
        self.smallest = ""
        """What is in the name of a kernel whose times are recorded, where any are."""
        self.us: list[float] = []
        self.stream: Stream | None = None
        self.last: list[Any] = []
        self.kept: list[tuple[Any, Any]] = []
        self._mallopt = _mallopt()
        self.model: Any = _nothing
        self._made: Any = _nothing

    def stand_in(self, count: int, recorded: bool) -> Json:
        """Have a function instead of the candidate that returns so many bytes, and does nothing, or on a GPU
        starts the smallest of kernels, whose time may be recorded."""
        held = torch.zeros(count, dtype=torch.uint8, device=self.device)
        number = torch.zeros(1, device=self.device)
        self.smallest = SMALLEST if recorded else ""

        def given(*_: Any) -> Any:
            if number.is_cuda:
                number.add_(1)
            return held

        self.model = given
        return {}

    def load(self, path: str, seed: int) -> None:
        """Load the candidate, which is trusted in nothing from here on."""
        self.path, self.smallest = path, ""
        self.hook = watch.Hook(path)
        self.before, self._changed = tamper.snapshot(), tamper.sealed()
        self.model = self._made = self._candidate(seed)

    def _candidate(self, seed: int) -> Any:
        """`ModelNew` of the candidate's file, on the device, with the weights that `Model` would get."""
        spec = importlib.util.spec_from_file_location("mucc_solution", self.path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["mucc_solution"] = module
        sys.path.append(os.path.dirname(self.path))
        spec.loader.exec_module(module)
        made = getattr(module, "ModelNew", None)
        if made is None:
            raise TypeError("the solution defines no ModelNew")
        torch.manual_seed(seed)
        with self.device if self.draws_there else nullcontext():
            model = made(*self.init)
        return model.to(self.device) if isinstance(model, torch.nn.Module) else model

    def borrow(self) -> Json:
        """Receive memory from the judge."""
        self._borrowed(*self.wire.borrow())
        return {}

    def _borrowed(self, name: str, room: Room) -> None:
        self.older.append(self.rooms.get(name))  # a GPU knows its address
        self.rooms[name] = room
        self.copies.pop(name, None)
        if name == FLAGS:
            with suppress(RuntimeError, AttributeError, OSError):  # without it words are told
                self.stream = Stream(room)
        elif self.device.type == "cuda":
            pin(room)

    def _copy_in(self, slot: str) -> Any:
        """Return the bytes of a slot on the device; on a GPU its stream copies them there."""
        if (room := self.rooms.get(slot)) is None or self.device.type == "cpu":
            return room and room.data
        if slot not in self.copies:
            self.copies[slot] = torch.empty(room.size, dtype=torch.uint8, device=self.device)
        self.copies[slot].copy_(room.data, non_blocking=True)
        return self.copies[slot]

    def _masked(self, slot: str) -> Any:
        """Return the masked bytes of a slot on the device; None where there are no tensors."""
        if (room := self.rooms.get(slot)) is None:
            return None
        if self.masked is None or self.masked.numel() < room.size:
            self.masked = torch.empty(room.size, dtype=torch.uint8, device=self.device)
        self.masked[: room.size].copy_(room.data, non_blocking=True)
        return self.masked

    def _copy_back(self, slot: str) -> None:
        """Show the judge what has become of inputs."""
        if slot in self.copies:
            self.rooms[slot].data.copy_(self.copies[slot])

    def _inputs(self, said: Json) -> Inputs:
        return Inputs(self._copy_in(str(said["slot"])), said["args"])

    def _call(self, inputs: Inputs) -> Any:
        with torch.no_grad():
            return self.model(*inputs.values)

    def call(self, said: Json) -> Json:
        """One call on the inputs of a slot, and what could be seen of it."""
        tidy(self.device)
        inputs = self._inputs(said)
        self._poison(inputs)
        seed(said["seed"], self.device)
        self.hook.calling = not said["first"]  # the first call may still compile
        rows: list[Json] = []
        started = time.monotonic()
        with watch.Tracer(self.path) as tracer:
            if said["observe"]:
                at_work = bool(said["at_work"])
                result, rows, seconds = watch.observed(lambda: self._call(inputs), self.device, at_work)
            else:
                result = self._call(inputs)
                seconds = time.monotonic() - started
        container = self._container(result)
        outs = _results(result)
        snaps = [_copy(v) for v in outs]
        threads = watch.threads_of(self.path)
        self._mallopt(0)
        self.clock.wait()
        time.sleep(SETTLE)
        late = [n for n, (v, snap) in enumerate(zip(outs, snaps, strict=True)) if not _same(v, snap)]
        overwritten = any(not _same(v, snap) for v, snap in self.kept)
        self.kept = [] if late else list(zip(outs, snaps, strict=True))
        self.last = snaps
        self.hook.calling = False
        self._copy_back(str(said["slot"]))
        outputs = [_described(v, inputs) for v in outs]
        for output in outputs if container else ():
            output["subclass"] = container
        return {
            "outputs": outputs,
            "late": late,
            "overwritten": overwritten,
            "threads": sorted({*threads, *watch.threads_of(self.path)}),
            "started": list(self.hook.started),
            "lines": sorted(tracer.lines, key=watch.by_number),
            "raised": [[str(line), name] for line, name in tracer.raised.items()],
            "work": rows,
            "seconds": seconds,
        }

    def _container(self, value: Any) -> str:
        """Return the candidate's class that holds results, which may compute when it is taken apart."""
        held: Any = value
        if isinstance(value, dict):
            held = list(held.values())
        elif not isinstance(value, list | tuple):
            return _class_name(held) if self.hook.code.has_class_of(held) else ""
        for part in held:
            if name := self._container(part):
                return name
        return ""

    def _poison(self, inputs: Inputs) -> None:
        """Have memory that is handed out next hold NaN or huge numbers instead of earlier results."""
        self._mallopt(PERTURB)
        tensors = [v for v in (*self.last, *inputs.tensors) if isinstance(v, torch.Tensor)]
        held: list[Any] = []
        with suppress(RuntimeError):  # there is no room for more
            for n in {v.numel() * v.element_size() for v in tensors}:
                held += (_ones(n, self.device) for _ in range(2))
        self.clock.wait()
        del held

    def commit(self) -> Json:
        """Hand over the results of the last call."""
        Results(self.rooms[RESULTS].data).write(self.last)
        self.clock.wait()
        return {}

    def series(self) -> Json:
        """Make calls as the judge tells, until it ends the series; say when each has returned, and when its
        results are handed over."""
        self.kept, self.us = [], []
        told_of: list[list[str] | None] = []
        wire = self.wire
        results = Results(self.rooms[RESULTS].data)
        while True:
            data, lent = wire.next()
            if lent is not None:  # inputs are of other sizes this time
                self._borrowed(*lent)
                continue
            if data in (b"", b"E"):
                break
            said = json.loads(data)
            inputs = self._inputs(said)
            if "seed" in said:
                seed(said["seed"], self.device)
            self.last = []
            told = self.device.type == "cuda" and "number" not in said
            if told:
                self.clock.flush()
                self.clock.wait()
            wire.send(b"R")
            if "number" not in said and not self._woken():
                break
            word = wire.awaited(LISTENING_S)
            if word[:1] != b"G":
                break
            if word[1:]:
                seed(int(word[1:]), self.device)
            if self.stream is not None and "number" in said:
                told_of.append(self._streamed(inputs, results, said, self.stream))
            else:
                if told:
                    self._copy_in(str(said["slot"]))
                result = self._call(inputs)
                self.clock.wait()
                self.last = [_resolved(v) for v in _results(result)]
                wire.send(b"D" + peeks.told(self.last))
                results.write(self.last)
                self.clock.wait()
                wire.send(b"C")
                del result
            wire.send(json.dumps([_described(v, inputs) for v in self.last]).encode())
        return {"operations": told_of, "us": self.us}

    def _woken(self) -> bool:
        """Sleep until the judge has flushed the caches; say that a word to start is listened for."""
        if self.wire.receive() != b"W":
            return False
        self.wire.send(b"A")
        return True

    def _streamed(self, inputs: Inputs, results: Results, said: Json, stream: Stream) -> list[str] | None:
        """Put a call into the GPU's stream behind the judge's gate (`gate`); return the operations that
        PyTorch has started in it, as far as its profiler tells."""
        number, slot = int(said["number"]), str(said["slot"])
        with watch.Operations(self.smallest) as operations:  # starts before the stream waits
            stream.wait(OPEN, number)
            masked = self._masked(slot)
            stream.mark(COPIED, number)
            stream.wait(COLD, number)
            stream.mark(AWAKE, number)
            stream.wait(KEYED, number)
            if masked is not None:
                stream.unmask(masked, self.copies[slot])
            stream.mark(READY, number)
            result = self._call(inputs)
            stream.mark(DONE, number)
            self.last = _results(result)
            results.write(snapshot(self.last))
            stream.mark(HANDED, number)
            del result
            self.wire.send(b"D")
            self.clock.wait()
        self.us += operations.us
        return operations.names

    def signs(self) -> Json:
        """Return the signs of tampering in this process."""
        changed = self._changed(self.before)
        objects = (self, self.wire, self.clock, self.hook, self.stream)
        changed += tamper.shadowed(*(one for one in objects if one is not None))
        if self.model is not self._made:
            changed.append("the solution that is called")
        if any(map(self.hook.code.has_function, gc.callbacks)):
            changed.append("gc.callbacks")
        return {"changed": changed, "seen": list(self.hook.seen)}


def _ones(size: int, device: Any) -> Any:
    """Return so many bytes of ones in all bits; words are filled faster."""
    made = torch.empty(size, dtype=torch.uint8, device=device)
    (made.view(torch.int64) if size % 8 == 0 else made).fill_(-1 if size % 8 == 0 else 0xFF)
    return made


def _nothing(*_: Any) -> tuple[()]:
    """Stand for the candidate until it is loaded."""
    return ()


def _results(value: Any) -> list[Any]:
    """Return the results in what a call has returned. A parameter, which computes nothing, is taken for its
    tensor, and a number for what it is now: one of the candidate's class may be computed later."""
    return [_result(v) for v in leaves(value)]


def _result(value: Any) -> Any:
    kind = cast("type[Any]", type(value))  # `isinstance` asks the value for its class
    if kind is torch.nn.Parameter:
        return _without_class(value)
    if issubclass(kind, float):
        return float.__mul__(value, 1.0)
    return int.__add__(value, 0) if issubclass(kind, int) and kind is not bool else value


def _without_class(value: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        return value.detach()


def _copy(value: Any) -> Any:
    return (
        value.detach().clone(memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
    )


def _resolved(value: Any) -> Any:
    """Return a result whose memory has its values, which is not so of conjugate and negative views: their
    elements are computed when they are read."""
    return value.resolve_conj().resolve_neg() if type(value) is torch.Tensor else value


def _same(value: Any, snap: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.numel():
        return True
    now, before = (_resolved(t.detach()).contiguous().reshape(-1).view(torch.uint8) for t in (value, snap))
    words = torch.int64 if now.numel() % 8 == 0 else torch.uint8
    return bool(torch.equal(now.view(words), before.view(words)))


def _described(value: Any, inputs: Inputs) -> Json:
    if not isinstance(value, torch.Tensor):
        return {"value": value if isinstance(value, int | float | bool) else None}
    place = (value.data_ptr(), value.numel() * value.element_size()) if value.numel() else (0, 0)
    return {
        "subclass": "" if type(value) is torch.Tensor else _class_name(value),
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "device": value.device.type,
        "aliases": inputs.overlapping(*place) if place[1] else [],
        "shares_elements": _shares_elements(value),
    }


def _shares_elements(value: Any) -> bool:
    """Whether elements of a tensor may lie in one place: a stride is no longer than what lies within it."""
    if value.layout is not torch.strided or not value.numel():
        return False
    last = 0
    for stride, n in sorted(
        (stride, n) for n, stride in zip(value.shape, value.stride(), strict=True) if n > 1
    ):
        if stride <= last:
            return True
        last += (n - 1) * stride
    return False


def _class_name(value: Any) -> str:
    return type(value).__name__ or "a class without a name"


def _mallopt() -> Callable[[int], None]:
    """Set the byte that the C library fills memory with; do nothing if it has no such option."""
    try:
        option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return lambda byte: None
    return lambda byte: option(M_PERTURB, byte) and None


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    session: Session | None = None
    path = ""
    for request in line.requests():
        try:
            if request["do"] == "warm":
                with suppress(RuntimeError):  # what fails does so again when it is needed
                    torch.zeros(1, device=request["device"])
                line.say({})
                continue
            if request["do"] == "open":
                session = Session(request, Wire(SHARED))
            assert session
            answer: Json = {}
            match request["do"]:
                case "open":
                    pass
                case "borrow":
                    answer = session.borrow()
                case "stand_in":
                    answer = session.stand_in(request["count"], request["recorded"])
                case "load":
                    path = str(request["solution"])
                    session.load(path, request["seed"])
                case "call":
                    answer = session.call(request)
                case "commit":
                    answer = session.commit()
                case "series":
                    answer = session.series()
                case "signs":
                    answer = session.signs()
                case other:
                    raise ValueError(f"no request: {other}")
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            answer = {"failed": _told(error, path)}
            if request["do"] == "series" and session:
                with suppress(OSError):
                    session.wire.send(b"X")
        line.say(answer)


def _told(error: BaseException, path: str) -> str:
    """Return an exception in one line, with the innermost line of the candidate's file in its traceback."""
    text = (str(error).strip() or "no message").splitlines()[0][:300]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    place = f" (line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{place}"
