"""Child processes that answer requests in lines of JSON and run untrusted code."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from mucc.agent.isolation.server import MARK
from mucc.agent.isolation.zygote import Server, Zygote, ZygoteFailed, new_mark
from mucc.api import processes
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.importer import TORCH_MEMORY
from mucc.api.json_types import Json
from mucc.api.processes import Charge, Code, End, Family, Place, Printed, end_strays, notes, plain, scheduled
from mucc.api.sandbox import Layer

TORCH = {"cpu": TORCH_MEMORY, "cuda": 12 << 30}
"""Bytes of main memory that torch and CUDA may take."""

DYING = 2.0
"""Seconds for a process that closed its pipe to end by itself."""

BURIED = 20.0
"""Seconds for a killed process to end; a process with work on a GPU takes long."""

LONGEST = 1 << 24
"""Bytes of the longest answer."""

WORD = 64
"""Bits of the largest whole number in an answer."""

LOOK = 0.2
"""Seconds between looks at a process whose answer is awaited."""

FAR = 10.0
"""Times the limit: so long is waited for an answer at the most, however busy the machine is."""

CROWD = 200
"""Processes that a child may have started at a time; compilers start some."""


class ChildFailed(Exception):
    """The process gave no answer: `reason` in words, and what it printed last.

    `status` is how it ended, negative by a signal; `cause` one of "ended", "time", "busy", "memory", "crowd",
    "answer", of which "busy" is nobody's fault: other work took the time that it had.
    """

    def __init__(self, reason: str, printed: str, cause: str = "ended", status: int = 0):
        super().__init__(reason)
        self.reason = reason
        self.printed = printed
        self.cause = cause
        self.status = status


class Child:
    """One process with bounded time and memory, forked from a zygote; ends with all its descendants.

    It runs `serve(line)` of a module. `memory` is in bytes of main memory. `seconds` is for all answers
    that are awaited, together, and does not count what other work takes (`Charge`). It works in `folder`,
    and its temporary files go there: where the machine allows it, in a copy in memory that nobody else
    sees (`detach_folder`). Of private folders, as home is, it sees the files of `readable` only; it may
    write in the folders of `writable`, which are the machine's. `shared` is a folder, by a descriptor,
    that it finds at `SHARED`. Raises DiagnosticError where it cannot be started: MU7001 without torch,
    MU7213 where it cannot be confined, else MU7212.
    """

    def __init__(
        self,
        zygote: Zygote,
        module: str,
        folder: str,
        seconds: float,
        memory: int,
        env: Mapping[str, str] | None = None,
        *,
        readable: Sequence[str] = (),
        writable: Sequence[str] = (),
        shared: int | None = None,
    ):
        self.folder, self.seconds, self.memory = os.path.abspath(folder), seconds, memory
        self._mark = new_mark()
        self._printed = Printed()
        self._buffer = bytearray()
        self._status: int | None = None
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        try:
            pipes = [theirs_in, theirs_out, self._printed.fileno(), *([] if shared is None else [shared])]
            forked = zygote.fork(module, self.folder, self._mark, env or {}, pipes, readable, writable)
            self._server, self._pid, self._own = forked
        except BaseException as error:
            os.close(self._in)
            os.close(self._out)
            self._printed.close()
            if isinstance(error, ZygoteFailed):
                raise _not_started(error) from None
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._charge = Charge()
        self._paused: list[int] = []
        self._code: Code | None = None
        """The machine code that was mapped when the process was looked at for the first time."""
        # Of namespaces the first process, which whoever loses its parent there becomes a child of.
        self._first = processes.parent(self._pid) if Layer.NAMESPACES in zygote.layers() else None
        self._family = Family(self._pid, lambda: _buried(self._server, self._pid), self._first)
        processes.watch(self._pid)

    @property
    def pid(self) -> int:
        """Its number for the system, outside of namespaces of its own."""
        return self._pid

    def kin(self) -> set[int]:
        """Return the numbers of all processes that come from the one that has forked it."""
        return {self._server.pid, *processes.descendants(self._server.pid)}

    def detach_folder(self) -> int | None:
        """Return a descriptor of the folder that only this process has, for the caller to close; None where
        it works in `folder` itself."""
        own, self._own = self._own, None
        return own

    def allow(self, seconds: float) -> None:
        """Set the time limit anew, from now on."""
        self.seconds, self._charge = seconds, Charge()

    @property
    def charged(self) -> float:
        """The seconds of the limit that it has used up."""
        return self._charge.seconds

    def ask(self, **request: Any) -> Json:
        """Send a request, and return its answer. Raises ChildFailed."""
        self.tell(request)
        return self.answer()

    def tell(self, *requests: str | Mapping[str, Any]) -> None:
        """Send requests, words or objects, without waiting. Raises ChildFailed where the process has
        ended."""
        lines = [r if isinstance(r, str) else json.dumps(r) for r in requests]
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            raise self._failed("ended") from None

    def answer(self, beside: Child | None = None, *, counts: bool = True) -> Json:
        """Return the next answer. Raises ChildFailed. Unless it `counts`, the wait uses up no limit of time.
        A process `beside` it is one that it waits for: what other work takes from that does not count
        either."""
        looked = rounds = 0
        while (end := self._buffer.find(b"\n", looked)) < 0:
            looked = len(self._buffer)
            self._charge_for(rounds, beside, counts)
            rounds += 1
            ready, _, _ = select.select([self._in], [], [], LOOK)
            if ready:
                data = os.read(self._in, 1 << 16)
                if not data:
                    self._family.wait(DYING, ())
                    raise self._failed("ended")
                self._buffer += data
            elif self._family.wait(0, ()) is End.OF_ITSELF and not select.select([self._in], [], [], 0)[0]:
                raise self._failed("ended")
            if len(self._family.pids) > CROWD:
                raise self._failed(f"started more than {CROWD} processes", "crowd")
            # To add up takes a millisecond, and is done while nothing comes.
            if self._family.peak > self.memory or (not ready and self._family.held > self.memory):
                said = f"took more than the {self.memory >> 20} MiB of memory that it may"
                raise self._failed(said, "memory")
            if len(self._buffer) > LONGEST:
                raise self._failed("answered without end", "answer")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            answer = _plain(json.loads(line))
        except (ValueError, RecursionError):
            raise self._failed("gave an answer that is none", "answer") from None
        if not isinstance(answer, dict):
            raise self._failed("gave an answer that is none", "answer")
        return answer  # pyright: ignore[reportUnknownVariableType]

    def _charge_for(self, rounds: int, beside: Child | None, counts: bool) -> None:
        """Charge the process for the time in which it gave no answer. Most answers come in the first round,
        which is free. Raises ChildFailed where the limit is reached."""
        if rounds == 1:
            self._charge.begin([*self._family.pids, *(beside._family.pids if beside else ())])
        if rounds < 2 or self._charge.age < LOOK:
            return
        charge, counts = self._charge, counts and not self._paused  # while it is stopped the parent works
        charge.add(self._family.pids, beside._family.pids if beside else (), counts=counts)
        if charge.seconds >= self.seconds:
            said = f"did not end within {self.seconds:g} s, {charge.computed:.2g} s on processors"
            raise self._failed(f"{said}, and was stopped", "time")
        if charge.wall >= FAR * self.seconds:
            taken = charge.wall - charge.seconds
            said = f"did not end within {charge.wall:.0f} s, {taken:.0f} s of which other work took"
            raise self._failed(f"{said}, and was stopped", "busy")

    def has_answer(self) -> bool:
        """Whether an answer has begun to come, or the process has ended."""
        return bool(self._buffer) or bool(select.select([self._in], [], [], 0)[0])

    def _failed(self, reason: str, cause: str = "ended") -> ChildFailed:
        status = self.close()
        if reason == "ended":
            reason = f"ended with signal {-status}" if status < 0 else f"ended with status {status}"
        return ChildFailed(reason, self.printed(), cause, status)

    def scheduled_ns(self) -> tuple[int, int]:
        """Return how long the threads of the process have been on processors, and have waited for one, all
        together."""
        found = scheduled(self._pid).values()
        return sum(on for on, _ in found), sum(waited for _, waited in found)

    def libraries(self) -> tuple[str, ...]:
        """Return the files of machine code that are mapped, as far as the system tells."""
        found: dict[str, None] = {}
        path = f"/proc/{self._pid}/maps"
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                    found[fields[5].strip()] = None
        return tuple(found)

    def pause(self) -> None:
        """Stop the process, and all others of its namespaces, until `resume`."""
        self._paused = processes.pause(self._pid, self._first)

    def escaped(self) -> list[int]:
        """Return the processes beside the stopped ones: one that was not stopped yet has started these."""
        found = processes.descendants(self._first or self._pid)
        return [pid for pid in found if pid not in self._paused and pid != self._pid]

    def helpers(self) -> list[int]:
        """Return the processes beside this one that it has started: those that are stopped, if some are."""
        found = self._paused or processes.descendants(self._first or self._pid)
        return [pid for pid in found if pid != self._pid]

    def working(self) -> list[list[Place]] | None:
        """Return where threads of the stopped processes compute (`processes.working`); None where the system
        does not tell. Code that is in a file at the first time counts as that file's from then on."""
        found: list[list[Place]] = []
        try:
            self._code = self._code or Code(self._pid)
            for pid in self._paused:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                    found += processes.working(pid, self._code)
        except OSError:
            return None
        return found

    def read(self, places: Sequence[tuple[int, int]]) -> list[str | None]:
        """Return what lies at addresses of the stopped process, so many bytes each, in hexadecimal digits.

        Returns None for an address that has no memory, and nothing at all where the system does not tell.
        """
        return [None if data is None else data.hex() for data in processes.memory(self._pid, places)]

    def spent_ns(self, *pids: int) -> int:
        """Return the time of processors that the stopped processes, or these, have taken so far."""
        return sum(on for pid in pids or self._paused for on, _ in scheduled(pid).values())

    def demand_ns(self, *pids: int) -> int:
        """Return how long these processes have been on processors, or waited for one, so far."""
        return sum(on + waited for pid in pids for on, waited in scheduled(pid).values())

    def resume(self) -> int:
        """Let it go on; return the time right before, in ns of `time.perf_counter_ns`."""
        paused, self._paused = self._paused, []
        return processes.resume(paused)

    def prefer(self, niceness: int) -> None:
        """Set the priority of the process, where that is permitted."""
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._pid, niceness)

    def printed(self) -> str:
        """Return the last lines of what the process printed."""
        return self._printed.last_lines()

    def close(self) -> int:
        """End the process and its descendants; its status."""
        if self._status is None:
            self._status, _ = self._family.end()
            for end in (self._in, self._out, self._own):
                if end is not None:
                    os.close(end)
            end_strays(f"{MARK}={self._mark}", self.folder)
        return self._status

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._printed.close()


@contextlib.contextmanager
def in_turn(turn: Callable[[], contextlib.AbstractContextManager[None]]) -> Generator[float]:
    """Hold a turn on the GPU; yield the seconds waited for it."""
    started = time.monotonic()
    with turn():
        yield time.monotonic() - started


def _plain(value: Any) -> Any:
    """Return a value of JSON whose texts can be shown: untrusted code may have written the answer. Raises
    ValueError for whole numbers of any length, which to print and to multiply takes any time."""
    match value:
        case int() if value.bit_length() > WORD:
            raise ValueError("a number has too many digits")
        case str():
            return plain(value)
        case list():
            return [_plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            return {plain(name): _plain(one) for name, one in items.items()}
        case _:
            return value


def _not_started(failed: ZygoteFailed) -> DiagnosticError:
    """Return the error of a process that could not be started, a fault of the machine."""
    if "No module named 'torch'" in failed.printed:
        helps = ("pip install torch",)
        return DiagnosticError(Diagnostic("MU7001", "running problems needs torch", helps=helps))
    return DiagnosticError(Diagnostic("MU7212", str(failed), notes=notes(failed.printed)))


def _buried(server: Server, pid: int) -> tuple[int, int]:
    """Return the status of a killed process, and its peak memory in KiB, from the server that forked it."""
    until, pause = time.monotonic() + BURIED, 0.0005
    while True:
        try:
            found, _ = server.ask({"reap": pid})
        except ZygoteFailed:
            break
        if found["status"] is not None:
            return int(found["status"]), int(found["peak"])
        if time.monotonic() >= until:
            break
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return -signal.SIGKILL, 0
