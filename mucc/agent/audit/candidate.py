"""The process of a candidate: loads it, calls it as asked, and writes down what came. Imports torch.

Nothing that this process says is believed where it can be checked: results are compared elsewhere, after it
has ended, and its times are held against another clock.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from mucc.agent.audit import tamper, watch
from mucc.agent.audit.cases import WARM, Case
from mucc.agent.audit.clocks import clock
from mucc.agent.audit.inputs import drift, leaves, make_inputs, sampled
from mucc.agent.audit.memory import tidy
from mucc.agent.audit.slots import Slot
from mucc.agent.isolation.line import Line
from mucc.api.diagnostics import DiagnosticError
from mucc.api.importer import OpenedProblem, Request, error_to_json, limit_process, parse_problem
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

SETTLE = 0.03
"""Seconds in which work that a call has left behind would change its result."""

M_PERTURB, PERTURB = -6, 0x80
"""glibc's option that fills memory when it is given out, with a byte's complement: 0x7F7F7F7F is 3e38."""


class ProblemFailed(Exception):
    """The problem file is at fault, not the candidate."""

    def __init__(self, error: DiagnosticError):
        super().__init__(str(error))
        self.error = error


class Session:
    """The candidate, its inputs, and what its last calls have returned."""

    def __init__(self, request: Json):
        self.device = torch.device(request["device"])
        self.path = ""
        self.draws_there = bool(request["draws_there"])
        limit_process(request["memory"], addresses=self.device.type == "cpu")
        self.clock = clock(self.device)
        asked = Request.from_json(request["problem"])
        try:
            self.problem = OpenedProblem(asked, parse_problem(asked.shown, asked.text))
        except DiagnosticError as error:
            raise ProblemFailed(error) from None
        self.slots: dict[int, Slot] = {}
        self.last: list[Any] = []
        self.kept: list[tuple[Any, Any]] = []
        self._mallopt = _mallopt()
        self._filled(Case("trial", request["seed"]))
        self.model: Any = None

    def load(self, path: str, seed: int) -> None:
        """Load the candidate, which is trusted in nothing from here on."""
        self.path = path
        self.before = tamper.snapshot()
        self.hook = watch.Hook(path)
        self.model = self._candidate(seed)

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
            model = made(*self.problem.init_inputs())
        return model.to(self.device) if isinstance(model, torch.nn.Module) else model

    def _call(self, slot: Slot) -> Any:
        with torch.no_grad():
            return self.model(*slot.values)

    def call(self, case: Case) -> Json:
        """One call on the inputs of a case, and what could be seen of it."""
        tidy(self.device)
        slot = self._filled(case)
        self._poison()
        torch.manual_seed(case.seed)
        self.hook.calling = case.name != "first"  # the first call may still compile
        rows: list[Json] = []
        with watch.Tracer(self.path) as tracer:
            if case.observe:
                result, rows = watch.observed(lambda: self._call(slot), self.device)
            else:
                result = self._call(slot)
        outs = leaves(result)
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
        return {
            "outputs": [self._described(v, slot) for v in outs],
            "inputs_changed": [n for n, g in enumerate(slot.guarded) if g.changed()],
            "bands_changed": [n for n, g in enumerate(slot.guarded) if g.bands_changed()],
            "late": late,
            "overwritten": overwritten,
            "threads": sorted({*threads, *watch.threads_of(self.path)}),
            "started": list(self.hook.started),
            "lines": sorted(tracer.lines),
            "raised": [[line, name] for line, name in tracer.raised.items()],
            "work": rows,
        }

    def _filled(self, case: Case) -> Slot:
        slot = self.slots.setdefault(case.slot, Slot())
        try:
            made = make_inputs(self.problem, case, self.device)
        except DiagnosticError as error:
            raise ProblemFailed(error) from None
        slot.fill(made, case.guard)
        return slot

    def _poison(self) -> None:
        """Have memory that is handed out next hold NaN or huge numbers instead of earlier results."""
        self._mallopt(PERTURB)
        sizes = [v.numel() * v.element_size() for v in self.last if isinstance(v, torch.Tensor)]
        sizes += [g.tensor.numel() * g.tensor.element_size() for s in self.slots.values() for g in s.guarded]
        fill = {"fill_value": 0xFF, "dtype": torch.uint8, "device": self.device}
        held: list[Any] = []
        with suppress(RuntimeError):  # there is no room for more
            held += (torch.full((n,), **fill) for n in {*sizes} for _ in range(2))
        self.clock.wait()
        del held

    def _described(self, value: Any, slot: Slot) -> Json:
        if not isinstance(value, torch.Tensor):
            return {"value": value if isinstance(value, int | float | bool) else None}
        place = (value.data_ptr(), value.numel() * value.element_size()) if value.numel() else (0, 0)
        aliases = [n for n, g in enumerate(slot.guarded) if place[1] and g.overlaps(*place)]
        return {
            "subclass": "" if type(value) is torch.Tensor else type(value).__name__,
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "device": value.device.type,
            "aliases": aliases,
        }

    def give(self, folder: str, sample: int) -> Json:
        """Write the elements of the last results that are compared, as plain bytes."""
        sizes: list[int] = []
        for n, value in enumerate(self.last):
            data = b""
            if isinstance(value, torch.Tensor):
                flat = sampled(value.reshape(-1).to(self.device), sample).cpu().contiguous()
                data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, str(n)), "wb") as file:
                file.write(data)
            sizes.append(len(data))
        return {"sizes": sizes}

    def ready(self, cases: list[Case]) -> Json:
        """Fill the slots that timed calls take turns with, and warm up."""
        self.kept = []
        for case in cases:
            self._filled(case)
        for _ in range(WARM):
            for case in cases:
                self._call(self.slots[case.slot])
        self.clock.wait()
        gc.collect()
        return {}

    def timed(self, number: int, whole: bool) -> None:
        """Time a call with a cold cache."""
        slot = self.drift(number)
        self.clock.flush()
        self.clock.begin()
        result = self._call(slot)
        self.clock.end(whole)
        self.last = leaves(result)

    def bare(self, number: int) -> None:
        """Make a call with nothing around it but new inputs."""
        self.last = leaves(self._call(self.drift(number)))

    def drift(self, number: int) -> Slot:
        """Change the inputs of a timed call in place, so that no earlier result fits them."""
        slot = self.slots[number % len(self.slots)]
        for own in slot.guarded:
            drift(own.tensor)
        return slot

    def over(self) -> Json:
        """Return the times of the calls since they were last asked for."""
        self.clock.wait()
        self.last = [_copy(v) for v in self.last]
        return {"times": [list(t) for t in self.clock.times()]}

    def signs(self) -> Json:
        """Return the signs of tampering in this process."""
        return {"changed": tamper.changed(self.before), "seen": list(self.hook.seen)}


def _copy(value: Any) -> Any:
    return (
        value.detach().clone(memory_format=torch.contiguous_format)
        if isinstance(value, torch.Tensor)
        else value
    )


def _same(value: Any, snap: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.numel():
        return True
    now, before = (t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (value, snap))
    words = torch.int64 if now.numel() % 8 == 0 else torch.uint8
    return bool(torch.equal(now.view(words), before.view(words)))


def _mallopt() -> Callable[[int], None]:
    """Set the byte that the C library fills memory with; do nothing if it has no such option."""
    try:
        option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return lambda byte: None
    return lambda byte: option(M_PERTURB, byte) and None


def hello() -> Json:
    """Return the devices that can be audited on here."""
    from mucc.api.machine import no_gpu

    reason = no_gpu()
    card = "" if reason else torch.cuda.get_device_name()
    return {"cuda": reason is None, "reason": reason, "card": card}


def serve(line: Line) -> None:
    """Answer requests until there are no more."""
    session: Session | None = None
    path = ""
    number = 0
    for request in line.requests():
        try:
            if isinstance(request, str):
                assert session
                if request == "bare":
                    session.bare(number)
                elif request == "drift":
                    session.drift(number)
                else:
                    session.timed(number, request == "whole")
                number += 1
                continue
            answer: Json = {}
            match request["do"]:
                case "hello":
                    answer = hello()
                case "open":
                    session = Session(request)
                case "load":
                    assert session
                    path = str(request["solution"])
                    session.load(path, request["seed"])
                case "call":
                    assert session
                    answer = session.call(Case(**request["case"]))
                case "give":
                    assert session
                    answer = session.give(request["folder"], request["sample"])
                case "ready":
                    assert session
                    number = 0
                    answer = session.ready([Case(**c) for c in request["cases"]])
                case "over":
                    assert session
                    answer = session.over() | {"calls": number}
                    number = 0
                case "signs":
                    assert session
                    answer = session.signs()
                case other:
                    raise ValueError(f"no request: {other}")
        except ProblemFailed as failed:
            answer = {"errors": error_to_json(failed.error)}
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            answer = {"failed": _told(error, path)}
        line.say(answer)


def _told(error: BaseException, path: str) -> str:
    """Return an exception in one line, with the innermost line of the candidate's file in its traceback."""
    text = (str(error).strip() or "no message").splitlines()[0][:300]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    place = f" (line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text}{place}"
