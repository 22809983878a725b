"""Runs each task in a forked process with bounded time and memory.

Whatever a problem file does ends with its process: it may print, raise, hang, exit, or allocate without end.
A task that times something asks for its turn, and has the machine to itself until it ends.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, Generic, TypeVar

from mucc.process import reaper
from mucc.process.gpu_memory import Room

Task = TypeVar("Task")
Values = dict[str, Any]
Turn = Callable[[], None]
"""Blocks until no other child runs."""

TICK = 0.25
"""Seconds between two looks at the memory of children."""

LARGEST_LOG = 16 << 20
"""Bytes that a child may print."""


@dataclass(frozen=True)
class Limits:
    """Seconds, without those spent waiting for a turn; bytes of main memory beside the parent's, files apart.

    `address_space` also bounds what a child may ask for, so that what asks for too much gets an exception; it
    does not go together with CUDA, which asks for a lot that it never uses.
    """

    seconds: float
    memory: int
    address_space: bool = False


@dataclass(frozen=True)
class Sharing(Generic[Task]):
    """How tasks share the GPU's memory: what a task may take in bytes, and whether what came of it says that
    memory ran out."""

    room: Room
    wanted: Callable[[Task], int]
    is_short: Callable[[Values], bool]


@dataclass
class _Child(Generic[Task]):
    task: Task
    process: Any
    pipe: connection.Connection
    left: float
    since: float
    taken: int = 0
    ready: bool = False
    timing: bool = False

    def overdue(self, now: float) -> bool:
        waiting = self.ready and not self.timing
        return not waiting and now - self.since > self.left


def run_each(
    tasks: Iterable[Task],
    work: Callable[[Task, Turn], Values],
    log_of: Callable[[Task], Path],
    limits: Limits,
    jobs: int = 1,
    sharing: Sharing[Task] | None = None,
) -> Iterator[tuple[Task, Values]]:
    """What `work` makes of every task, in the order in which they end; `{"error": …}` where it makes nothing.

    Output of a child goes to the file that `log_of` names. Children are forks, so what the caller has
    imported they need not import. With `sharing` a task begins when the GPU's memory has room for it, and one
    that runs out of memory is done again at the end, with all of it.
    """
    sharing = sharing or Sharing(Room(None), lambda _: 0, lambda _: False)
    waiting = deque((task, sharing.wanted(task)) for task in tasks)
    children: list[_Child[Task]] = []
    try:
        while True:
            while waiting and len(children) < jobs and not any(c.ready for c in children):
                task, wanted = waiting[0]
                if (taken := sharing.room.try_take(wanted)) is None:
                    break
                waiting.popleft()
                children.append(_start(task, work, log_of(task), limits))
                children[-1].taken = taken
            if not children:
                return
            _give_turn(children)
            heard = connection.wait([c.pipe for c in children], TICK)
            for child in [c for c in children if c.pipe in heard]:
                answer = _hear(child)
                if answer is None:
                    continue
                children.remove(child)
                _end(child)
                sharing.room.give_back(child.taken)
                if sharing.is_short(answer) and child.taken < (sharing.room.total or 0):
                    waiting.append((child.task, sharing.room.total or 0))
                else:
                    yield child.task, answer
            for child in list(children):
                if problem := _over(child, limits):
                    children.remove(child)
                    _end(child)
                    sharing.room.give_back(child.taken)
                    yield child.task, {"error": problem}
    finally:
        for child in children:
            _end(child)


def _start(task: Task, work: Callable[[Task, Turn], Values], log: Path, limits: Limits) -> _Child[Task]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    log.parent.mkdir(parents=True, exist_ok=True)
    process = context.Process(target=_serve, args=(task, work, log, limits, ours, theirs))
    process.start()
    theirs.close()
    reaper.watch(process.pid or 0)
    return _Child(task, process, ours, limits.seconds, time.monotonic())


def _serve(task: Any, work: Any, log: Path, limits: Limits, ours: Any, pipe: Any) -> None:
    """The life of a child."""
    ours.close()
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    faulthandler.enable(descriptor)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.address_space:
        with contextlib.suppress(OSError, ValueError):
            most = _address_space() + limits.memory
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_LOG, LARGEST_LOG))

    if torch := sys.modules.get("torch"):
        # A pool's threads do not come along with a fork, and waiting for them would never end.
        torch.set_num_threads(1)

    def turn() -> None:
        pipe.send("ready")
        pipe.recv()

    try:
        answer = work(task, turn)
    except BaseException as error:
        first = (str(error).strip() or "no message").splitlines()[0]
        answer = {"error": f"{type(error).__name__}: {first}"[:300]}
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    pipe.send(answer)  # whoever reads it ends this process
    os._exit(0)  # whatever threads the problem file has left


def _address_space() -> int:
    """Bytes of address space of this process; 0 where it is not known."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def _memory(pid: int | str, *kinds: str) -> int:
    """Bytes of main memory of these kinds, such as `RssAnon`, of a process; 0 where they are not known."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = [line.split() for line in file]
    except OSError:  # it has ended
        return 0
    return sum(int(words[1]) << 10 for words in lines if words and words[0].rstrip(":") in kinds)


def _give_turn(children: list[_Child[Any]]) -> None:
    """Let one child go on once all are ready."""
    if any(c.timing for c in children) or not all(c.ready for c in children):
        return
    child = children[0]
    child.timing = True
    child.since = time.monotonic()
    with contextlib.suppress(OSError):
        child.pipe.send("go")


def _hear(child: _Child[Any]) -> Values | None:
    """What a child made; None where it only asks for its turn."""
    try:
        message = child.pipe.recv()
    except (EOFError, OSError):
        child.process.join(1)
        status = child.process.exitcode
        how = f"by signal {-status}" if status is not None and status < 0 else f"with status {status}"
        return {"error": f"its process ended {how}"}
    if message != "ready":
        return message
    child.ready = True
    child.left -= time.monotonic() - child.since
    return None


def _over(child: _Child[Any], limits: Limits) -> str | None:
    """Why a child has to end; None where it may go on."""
    if child.overdue(time.monotonic()):
        return f"no end within {limits.seconds:g} s"
    # A fork has the anonymous memory of its parent, and not what that has read of mapped files.
    grown = _memory(child.process.pid or 0, "RssAnon", "RssShmem") - _memory("self", "RssAnon")
    if grown > limits.memory:
        return f"more than {limits.memory >> 20} MiB of memory"
    return None


def _end(child: _Child[Any]) -> None:
    """Kill a child and what it has started, and wait for it."""
    for kill in (lambda: os.killpg(child.process.pid, signal.SIGKILL), child.process.kill):
        with contextlib.suppress(OSError):
            kill()
    child.process.join()
    reaper.forget(child.process.pid)
    child.pipe.close()
