"""Record what a candidate does in a call: lines, exceptions, threads, processes, kernels. Imports torch."""

from __future__ import annotations

import importlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from types import FrameType
from typing import Any

from mucc.agent.audit.activity import MARK, Activity, device_rows
from mucc.agent.audit.frames import ATTRIBUTES, HANDED, SHOWN, STACKS, Frames, has_ended
from mucc.api.json_types import Json

torch: Any = importlib.import_module("torch")

EVENTS = {
    "sys._getframe": "looks at the stack of its callers",
    "sys._current_frames": "looks at the stacks of threads",
    "sys.settrace": "sets a trace function",
    "sys.setprofile": "sets a profile function",
    "sys.addaudithook": "listens to Python's audit events",
    "gc.get_objects": "goes through all objects of the process",
    "gc.get_referrers": "looks for who refers to an object",
    "gc.get_referents": "looks for what an object refers to",
}
"""Audit events of Python that show that a file inspects the process it runs in, and what a finding says."""

WATCHED, UNRECORDED = "asks whether it is being watched", "switches off what PyTorch records"
INTERRUPTS = "sets a handler of signals, which gets the frames that it interrupts"

QUESTIONS = (
    ("torch.autograd", "_profiler_enabled", WATCHED),
    ("torch._C._autograd", "_profiler_enabled", WATCHED),
    ("sys", "gettrace", WATCHED),
    ("sys", "getprofile", WATCHED),
    ("torch.autograd", "_enable_record_function", UNRECORDED),
    ("torch._C._autograd", "_enable_record_function", UNRECORDED),
    ("torch._C._autograd", "_profiler_type", WATCHED),
    ("signal", "signal", INTERRUPTS),
    ("_signal", "signal", INTERRUPTS),
)
"""Functions by which a solution finds out that it is watched, switches records off, or gets frames of the
runner: owner, name, and what a finding says of a solution that calls them."""

GO_BETWEENS = ("/inspect.py", "/traceback.py", "/pathlib.py")
"""Files of the standard library that read frames or paths for their callers; the caller counts."""

PROCESSES = re.compile(
    r"/proc/(?!(cpuinfo|meminfo|loadavg|stat|uptime|version|vmstat|filesystems|driver/.*|sys/.*"
    r"|self/(status|stat|statm|cgroup|limits|cpuset|numa_maps|exe))$)"
)
"""Matches paths of /proc that show other processes, and not the machine or the size of the own process."""

CALL = "an observed call"
"""The name under which the profiler records a call on a CPU, by the clock with which it times operations."""

SPIN_CYCLES = 20_000_000
"""Cycles of a GPU, about 11 ms, for which its stream is busy before an observed call: several times what the
host takes to put a call there."""

MOST_NAMES = 300
"""The most names of operations that are kept of a timed call."""

ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""Exceptions by which iterations end: Python raises and catches them itself."""

STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec")
"""Audit events of processes that start."""


class Code:
    """Recognise code of the solution: its file, files beside it, and code that these compile from text."""

    def __init__(self, path: str):
        self.path = path
        self._folder = os.path.dirname(path) + os.sep

    def name(self, frame: FrameType) -> str | None:
        """Return whose code a frame runs: "" for the solution's file, a name for its other code, None for any
        other."""
        file = frame.f_code.co_filename
        if file == self.path:
            return ""
        if file.startswith("<") and not file.startswith("<frozen"):
            return file if self._has_made(frame) else None
        return os.path.basename(file) if file.startswith(self._folder) else None

    def has_class_of(self, value: object) -> bool:
        """Whether the class of a value is defined by the solution."""
        return self._has_module(type(value).__module__)

    def has_function(self, value: object) -> bool:
        """Whether a function is defined by the solution."""
        return self._has_module(str(getattr(value, "__module__", "")))

    def _has_module(self, name: str) -> bool:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and (file == self.path or file.startswith(self._folder))

    def _has_made(self, frame: FrameType) -> bool:
        """Whether code that has no file runs in a module of the solution, or in no module."""
        if _makes_a_tuple(frame):
            return False
        file = frame.f_globals.get("__file__")
        if isinstance(file, str):
            return file == self.path or file.startswith(self._folder)
        return frame.f_globals.get("__name__") not in sys.modules


def _makes_a_tuple(frame: FrameType) -> bool:
    """Whether a frame is the constructor of a named tuple, which Python compiles from text."""
    names = frame.f_code.co_names
    new: object = getattr(tuple, "__new__")  # noqa: B009 (its type is not known)
    return names == ("_tuple_new",) and frame.f_globals.get("_tuple_new") is new


class Hook:
    """Listen to Python's audit events. The hook cannot be removed again."""

    def __init__(self, path: str):
        self.code = Code(path)
        self.frames = Frames(path)
        self.seen: dict[str, None] = {}
        self.started: dict[str, None] = {}
        self.calling = False
        self._busy = False
        self._frame: Callable[[int], FrameType] = sys._getframe  # pyright: ignore[reportPrivateUsage]
        sys.addaudithook(self._event)
        for owner, name, said in QUESTIONS:
            self._ask_through(sys.modules[owner], name, said)

    def _ask_through(self, owner: Any, name: str, said: str) -> None:
        """Replace a function by one that notes calls from the solution and returns the same."""
        real: Callable[..., Any] | None = getattr(owner, name, None)
        if real is None:
            return

        def asked(*args: Any) -> Any:
            if self.code.name(self._frame(1)) is not None:
                self.seen[said] = None
            return real(*args)

        setattr(owner, name, asked)

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        if event in STARTS:
            if self.calling:
                self.started[event] = None
        elif event == "object.__getattr__":
            if args[1:] and args[1] in ATTRIBUTES:
                self._found_a_frame(args[0], str(args[1]))
        elif (event in EVENTS or event == "open") and not self._busy:
            self._busy = True
            try:
                if (frame := self._by_candidate()) is None:
                    return
                if event == "sys._getframe":
                    self._looked_at_the_stack(frame, self._frame(1))
                elif event in EVENTS:
                    self.seen[EVENTS[event]] = None
                elif args and isinstance(args[0], str) and PROCESSES.match(args[0]):
                    self.seen["looks into processes by /proc"] = None
            finally:
                self._busy = False

    def _looked_at_the_stack(self, frame: FrameType, asked: FrameType) -> None:
        """Note that the solution's code in `frame` read the stack by a call in `asked`.

        Nothing is noted where it gets a frame of its own code and reads only the place of that.
        """
        names = set[str]()
        while asked is not frame and asked.f_back is not None:
            names.add(asked.f_code.co_name)
            asked = asked.f_back
        depth, found = self.frames.depth(frame), frame
        if depth is None and not names.isdisjoint(STACKS) and not self.frames.takes:
            self.seen[SHOWN] = None
            return
        for _ in range(depth or 0):
            found = found and found.f_back
        if depth is None or found is None or self.code.name(found) is None:
            self.seen[EVENTS["sys._getframe"]] = None

    def _found_a_frame(self, value: Any, name: str) -> None:
        """Note that the solution's code read a frame from a traceback or a generator.

        Nothing is noted where the frame has ended, so that it has no callers, or where the code reads only
        its place.
        """
        self._busy = True  # to read the code of a frame is an event as well
        try:
            reader = self._frame(2)
            if reader.f_code.co_name in HANDED and reader.f_code.co_filename.endswith(GO_BETWEENS):
                is_direct = reader.f_code.co_name == "walk_tb"  # else it serves other functions of its file
                above = reader.f_back if is_direct else _past_go_betweens(reader.f_back)
                own = above is not None and self.code.name(above) is not None
                if own and self.frames.follows:
                    self.seen[EVENTS["sys._getframe"]] = None
                return
            if self.code.name(reader) is None:
                return
            found = getattr(value, name)
            own = found is not None and self.code.name(found) is not None
            if not has_ended(found) and not (own and self.frames.depth(reader) == 0):
                self.seen[EVENTS["sys._getframe"]] = None
        finally:
            self._busy = False

    def _by_candidate(self) -> FrameType | None:
        """Return the frame of the solution's code that caused the event, itself or by a library that acts for
        its callers; None where other code did."""
        frame = _past_go_betweens(self._frame(2))
        return frame if frame is not None and self.code.name(frame) is not None else None


def _past_go_betweens(frame: FrameType | None) -> FrameType | None:
    """Return the first frame that is in none of `GO_BETWEENS`, from a frame on to its callers."""
    while frame is not None and frame.f_code.co_filename.endswith(GO_BETWEENS):
        frame = frame.f_back
    return frame


class Tracer:
    """Trace a call: the lines of the solution's code that run, and the exceptions in its file, by line.

    A line is its number in the solution's file, `name:number` elsewhere.
    """

    def __init__(self, path: str):
        self._code = Code(path)
        self.lines: set[str] = set()
        self.raised: dict[int, str] = {}

    def __enter__(self) -> Tracer:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = self._code.name(frame)
        if name is None:
            return None
        return self._line if not name else partial(self._line_elsewhere, name)

    def _line_elsewhere(self, name: str, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines.add(f"{name}:{frame.f_lineno}")
        return partial(self._line_elsewhere, name)

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.lines.add(str(frame.f_lineno))
        elif event == "exception" and not issubclass(arg[0], ENDS):
            self.raised.setdefault(frame.f_lineno, arg[0].__name__)
        return self._line


def by_number(line: str) -> tuple[str, int]:
    """Return a key that sorts places in source, such as `solution.py:12`, by file, then by line number."""
    name, _, number = line.rpartition(":")
    return name, int(number)


def threads_of(path: str) -> list[str]:
    """Return the functions of the solution's code that other threads are in."""
    import threading

    here, code = threading.get_ident(), Code(path)
    found: dict[str, None] = {}
    for ident, top in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
        frame: FrameType | None = top
        while ident != here and frame is not None:
            if code.name(frame) is not None:
                found[f"{frame.f_code.co_name} (line {frame.f_lineno})"] = None
            frame = frame.f_back
    return list(found)


class Mark:
    """A small kernel that starts as soon as the default stream has done all its work so far (`activity`).

    It runs on a stream of high priority, so that other work does not delay it.
    """

    def __init__(self, device: Any):
        self._device = device
        self._stream = torch.cuda.Stream(device, priority=-1)
        self._number = torch.zeros(1, dtype=torch.float32, device=device)
        self._default = torch.cuda.default_stream(device)

    def set(self) -> None:
        """Start it."""
        self._stream.wait_event(self._default.record_event())
        with torch.cuda.stream(self._stream):
            torch.ops.aten.nextafter_.default(self._number, self._number)


def observed(call: Callable[[], Any], device: Any, at_work: bool = False) -> tuple[Any, list[Json], float]:
    """Make a call under the profiler; return its result, its work and its time in seconds.

    The work is ATen operations and kernels of the device. With `at_work` the stream of a GPU is busy when the
    call begins.
    """
    kinds = [torch.profiler.ProfilerActivity.CPU]
    mark: Mark | None = None
    spun: Any = None
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
        with suppress(RuntimeError):  # without a mark nothing is told to be late
            mark = Mark(device)
            mark.set()  # the first time loads the kernel, which may wait for others
            torch.cuda.synchronize(device)
    with torch.profiler.profile(activities=kinds, experimental_config=_everywhere()) as profile:
        if at_work and device.type == "cuda":
            torch.cuda._sleep(SPIN_CYCLES)
            spun = torch.cuda.current_stream(device).record_event()
        started = time.monotonic()
        with nullcontext() if device.type == "cuda" else torch.profiler.record_function(CALL):
            result = call()
        queued = spun is not None and not spun.query()
        if mark is not None:
            with suppress(RuntimeError):
                mark.set()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.monotonic() - started
    told = [event.cpu_time_total / 1e6 for event in profile.events() if event.name == CALL]
    return result, _work(profile, mark is not None, queued), min([seconds, *told])


class Operations:
    """Record the names of PyTorch's operations that run in all threads while this is entered.

    `names` is None where the profiler does not start. It records the host alone, which leaves times on a GPU
    as they are. With `kernels`, kernels are recorded too, and `us` has the times of those whose name contains
    that text.
    """

    def __init__(self, kernels: str = "") -> None:
        self.names: list[str] | None = None
        self.us: list[float] = []
        self._on = False
        self._kernels = kernels
        self._kinds = {torch.profiler.ProfilerActivity.CPU}
        if kernels:
            self._kinds.add(torch.profiler.ProfilerActivity.CUDA)

    def __enter__(self) -> Operations:
        with suppress(RuntimeError, TypeError, AttributeError):
            profiler = torch.autograd.profiler
            settings = _everywhere() or torch._C._profiler._ExperimentalConfig()
            kineto = torch.autograd.ProfilerState.KINETO
            config = torch.autograd.ProfilerConfig(kineto, False, False, False, False, False, settings)
            profiler._run_on_profiler_start()
            torch.autograd._prepare_profiler(config, self._kinds)
            torch.autograd._enable_profiler(config, self._kinds)
            self._on = True
        return self

    def __exit__(self, *_: object) -> None:
        if not self._on:
            return
        with suppress(RuntimeError, AttributeError):
            events = list(torch.autograd._disable_profiler().events())
            torch.autograd.profiler._run_on_profiler_stop()
            if self._kernels:
                device = torch.autograd.DeviceType.CUDA
                mine = [e for e in events if e.device_type() == device and self._kernels in e.name()]
                self.us = [e.duration_ns() / 1e3 for e in mine]
            self.names = sorted({e.name()[:300] for e in events if "::" in e.name()})[:MOST_NAMES]


def _everywhere() -> Any:
    """Return settings with which the profiler records all threads; None where it has no such setting."""
    with suppress(TypeError, AttributeError):
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    return None


def _work(profile: Any, marked: bool, queued: bool = False) -> list[Json]:
    """Return rows of `Work`: ATen operations and kernels of the device, without the mark if one was set."""
    rows: dict[str, list[float]] = {}
    cuda = torch.autograd.DeviceType.CUDA
    events = list(profile.events())
    marks = [e for e in events if e.device_type != cuda and e.name == MARK] if marked else []
    mark = max(marks, key=lambda e: e.time_range.start, default=None)
    for event in events:
        if event is mark or event.device_type == cuda:
            continue
        if "::" in event.name or "GraphLaunch" in event.name:
            found = rows.setdefault(event.name, [0, 0.0])
            found[0] += 1
            found[1] += event.self_cpu_time_total
    operations = [
        {
            "kind": "op",
            "name": name[:300],
            "parent": "",
            "stream": 0,
            "calls": calls,
            "us": round(us, 3),
            "late_us": 0.0,
            "early_us": None,
        }
        for name, (calls, us) in rows.items()
    ]
    return [*operations, *device_rows(_activities(profile.profiler.kineto_results.events()), queued)]


def _activities(records: Any) -> Iterator[Activity]:
    """Yield what ran on the device, from records of the profiler."""
    cuda = torch.autograd.DeviceType.CUDA
    parents = {
        record.correlation_id(): record.name()
        for record in records
        if record.device_type() != cuda and "::" in record.name()
    }
    for record in records:
        if record.device_type() != cuda or getattr(record, "is_user_annotation", lambda: False)():
            continue
        if getattr(record, "activity_type", lambda: "")() != "cuda_sync":  # how long the host waited
            start = record.start_ns()
            yield Activity(
                record.name(),
                parents.get(record.linked_correlation_id(), ""),
                record.device_resource_id(),
                start,
                start + record.duration_ns(),
            )
