"""The zygote: a process that has loaded torch, and forks one child for each request. Nothing of what children
do happens in it; it never computes with torch, nor touches a GPU, since neither survives a fork.

    python -m mucc.agent.isolation.server SOCKET ISOLATION MODULE...

It first says which layers confine children: {"layers": ["namespaces", …]}. Requests and answers are JSON in
packets:

    {"fork": "mucc.agent.audit.candidate", "folder": …, "readable": […], "writable": […], "env": …,
    "mark": …}, with pipes and perhaps a folder
                        -> {"pid": 17}, in namespaces with a descriptor of the child's own folder
    {"reap": 17}        -> {"status": 0, "peak": 123}, its peak in KiB; {"status": null} before its end

In namespaces a child is the second process of its own; the first, which waits for it, ends all others. Some
are there before they are needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from mucc.agent.isolation.huge_pages import HugePages
from mucc.agent.isolation.line import Line
from mucc.api import processes
from mucc.api.json_types import Json
from mucc.api.sandbox import (
    QUOTA,
    Begun,
    Common,
    Isolation,
    Layer,
    Places,
    available,
    common,
    enter,
    leave_namespaces,
    places,
    prepare,
)

MARK = "MUCC_CHILD_MARK"
"""The variable by which descendants of a child are found that have left its process group."""

PACKET = 1 << 16
"""Bytes of the largest request."""

PR_SET_DUMPABLE = 4
"""Of prctl: whether other processes of this user may read the memory of the process."""

PR_SET_CHILD_SUBREAPER = 36
"""Of prctl: whether children of children that ended become its own."""

SHARED = 5
"""The descriptor at which a child finds a folder that it shares with another."""

PIECES = 8
"""Pieces of memory that are put into huge pages after a child has ended: a zygote with few children gains
less than that costs."""

SPARES = 2
"""Processes that wait in namespaces of their own, which to make takes three forks: an audit needs two."""

QUIET = 0.5
"""Seconds without a request after which spare processes are made and memory is put into huge pages: who asks
for a process right after another one has ended does not wait for that."""

CREDENTIALS = struct.Struct("3i")
"""What the kernel says of the sender of a message: its process, user and group."""


class NotForked(Exception):
    """No child could be made; the message says why."""


class Spare(NamedTuple):
    """A process that waits for a request in namespaces of its own: on this line, and its end is told here."""

    line: socket.socket
    ended: int


class Server:
    """Forks children and waits for their ends."""

    def __init__(self, control: socket.socket, layers: Sequence[Layer]):
        self.control = control
        self.layers = layers
        self.children: dict[int, int | None] = {}  # with the pipe that tells the end of those in namespaces
        # Where the system finds the mark of this process, and of those that it forks.
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        self.mark_at: int | None = libc.getenv(MARK.encode())
        self.pages = HugePages()
        self.spares: list[Spare] = []
        self._prepares = Layer.NAMESPACES in layers
        """Whether spare processes can be made, as far as is known."""
        self._known: Common | None = None
        """The places that all confined processes share, as found for the last spare one."""
        self._pieces = 0
        """Pieces of memory that are still to be put into huge pages."""

    def serve(self) -> None:
        """Answer requests until the pipe closes; then end all children."""
        while True:
            self._wait()
            data, given, _, _ = socket.recv_fds(self.control, PACKET, 4)
            if not data:
                break
            request = json.loads(data)
            folder = None
            if "reap" in request:
                answer = self.reap(request["reap"])
            else:
                answer, folder = self.fork(request, given)
            socket.send_fds(self.control, [json.dumps(answer).encode()], [] if folder is None else [folder])
            if folder is not None:
                os.close(folder)
            if answer.get("status") is not None:
                self._pieces = PIECES
        for spare in self.spares:
            spare.line.close()
            os.read(spare.ended, PACKET)  # until it has ended
        for pid in self.children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _wait(self) -> None:
        """Wait for a request, and do what is left to do while there is none."""
        quiet = QUIET
        while not select.select([self.control], [], [], quiet if self._is_behind else None)[0]:
            if self._pieces:
                self._pieces = self.pages.collapse(1) and self._pieces - 1
            else:
                self.prepare(len(self.spares) + 1)
            quiet = 0.0

    @property
    def _is_behind(self) -> bool:
        """Whether spare processes are missing, or memory is to be put into huge pages."""
        return bool(self._pieces) or (self._prepares and len(self.spares) < SPARES)

    def fork(self, request: Json, given: list[int]) -> tuple[Json, int | None]:
        """Fork a child that answers requests on the pipes that were given; return the answer, and the child's
        folder where that is its own."""
        try:
            if Layer.NAMESPACES in self.layers:
                pid, folder, end = self._in_namespaces(request, given)
            else:
                pid, folder, end = self._beside(request, self._place(request), given), None, None
        except (OSError, NotForked) as error:
            return {"error": getattr(error, "strerror", None) or str(error)}, None
        finally:
            for fd in given:
                os.close(fd)
        self.children[pid] = end
        return {"pid": pid}, folder

    def prepare(self, count: int = SPARES) -> None:
        """Have so many spare processes in namespaces, where that is allowed."""
        try:
            while self._prepares and len(self.spares) < count:
                self.spares.append(self._spare())
        except OSError:
            self._prepares = False  # each child is then asked for as it is needed

    def _place(self, request: Json) -> Places:
        """Return what a child may read and write. Raises OSError."""
        self._known = self._known or common()
        return places(request["folder"], QUOTA, request["readable"], request["writable"], self._known)

    def _beside(self, request: Json, place: Places, given: list[int]) -> int:
        """Fork a child that shares the namespaces of this process."""
        ready, leads = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(ready)
            os.close(leads)
            raise
        if not pid:
            try:
                os.setsid()
                os.close(leads)
                self._confine(place, given)
                _reseed()
                self._live(request, given)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(leads)
        os.read(ready, 1)  # now it leads a process group
        os.close(ready)
        return pid

    def _in_namespaces(self, request: Json, given: list[int]) -> tuple[int, int, int]:
        """Have a spare process be a child: its number here, its folder, and where its end is told."""
        while self.spares:
            with contextlib.suppress(OSError, NotForked):  # somebody has ended it
                return self._used(self.spares.pop(), request, given)
        return self._used(self._spare(), request, given)

    def _used(self, spare: Spare, request: Json, given: list[int]) -> tuple[int, int, int]:
        try:
            with spare.line as line:
                # Looked up here: the process no longer sees what is hidden from it.
                told = {**request, "readable": (), "place": dataclasses.asdict(self._place(request))}
                socket.send_fds(line, [json.dumps(told).encode()], given)
                room = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(4)
                data, extra, _, _ = line.recvmsg(1 << 10, room)
        except BaseException:
            os.close(spare.ended)
            raise
        found = {kind: value for _, kind, value in extra}
        if socket.SCM_RIGHTS not in found or socket.SCM_CREDENTIALS not in found:
            os.close(spare.ended)
            raise NotForked(data.decode(errors="replace") or "it ended before it was confined")
        pid, _, _ = CREDENTIALS.unpack(found[socket.SCM_CREDENTIALS][: CREDENTIALS.size])
        (folder,) = struct.unpack("i", found[socket.SCM_RIGHTS][:4])
        os.set_blocking(spare.ended, False)
        return pid, folder, spare.ended

    def _spare(self) -> Spare:
        """Fork a process into namespaces of its own, where it waits for a request."""
        self._known = common()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ended, told = os.pipe()
        try:
            with theirs:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                first = os.fork()
                if not first:
                    self._leave(theirs, told, self._known)
                os.waitpid(first, 0)  # it ends when it has forked
        except BaseException:
            ours.close()
            os.close(ended)
            raise
        finally:
            os.close(told)
        return Spare(ours, ended)

    def _leave(self, line: socket.socket, told: int, known: Common) -> NoReturn:
        """Leave the old namespaces, and fork the first process of the new ones."""
        try:
            leave_namespaces()
            if not os.fork():
                worker = os.fork()
                if worker:
                    line.close()
                    _wait_for(worker, told)
                os.setsid()
                self._worker(line.detach(), known)
        except BaseException as error:
            line.send(str(error).encode()[:500])
        os._exit(0)

    def _worker(self, told: int, known: Common) -> NoReturn:
        """Hide folders, wait for a request, enter its confinement, report the folder, and run the child."""
        os.dup2(told, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))  # sockets of the server, and of other spares
        line = socket.socket(fileno=3)
        try:
            begun = prepare(known)
            _reseed()
            data, given, _, _ = socket.recv_fds(line, PACKET, 4)
            if not data:
                os._exit(0)  # nobody needs it any more
            request = json.loads(data)
            folder = self._confine(Places(**request["place"]), given, begun)
            assert folder is not None
            socket.send_fds(line, [b"."], [folder])
            os.close(folder)
        except BaseException as error:
            line.send(str(error).encode()[:500])
            os._exit(1)
        kept = [os.dup(fd) for fd in given]  # the places of these are about to be taken
        line.close()
        try:
            self._live(request, kept)
        except BaseException:
            traceback.print_exc()
        os._exit(1)

    def _confine(self, place: Places, given: list[int], begun: Begun | None = None) -> int | None:
        """Enter the layers; return the folder of the process where that is its own."""
        if not self.layers:
            return None
        return enter(place, self.layers, [f"/proc/self/fd/{fd}" for fd in given[3:]], begun)

    def _live(self, request: Json, given: list[int]) -> None:
        """Run a child."""
        _dumpable(True)
        kept = [os.dup(fd) for fd in given]  # so that none lies where it is about to go
        self.control.detach()  # a spare process has closed it
        if Layer.NAMESPACES not in self.layers:  # else their first process is there for that
            _prctl(PR_SET_CHILD_SUBREAPER, True)  # so that no process of its own gets out of sight
        for place, fd in zip((3, 4, 1, 2), (*kept[:3], kept[2]), strict=True):
            os.dup2(fd, place)
        if kept[3:]:
            os.dup2(kept[3], SHARED)
        os.closerange(SHARED + len(kept[3:]), os.sysconf("SC_OPEN_MAX"))
        folder, mark = request["folder"], request["mark"]
        if self.mark_at:
            ctypes.memmove(self.mark_at, mark.encode(), len(mark))
        if self.layers:  # Triton has looked for the user's home when it was loaded
            os.environ.update({"TRITON_HOME": folder, "TRITON_CACHE_DIR": os.path.join(folder, ".triton")})
        home = {"HOME": folder} if self.layers else {}
        os.environ.update({**request["env"], **home, MARK: mark, "TMPDIR": folder})
        tempfile.tempdir = None
        os.chdir(folder)
        sys.path[0] = folder
        gc.unfreeze()
        module = importlib.import_module(request["fork"])
        module.serve(Line(3, 4))
        sys.stdout.flush()
        os._exit(0)  # whatever threads are left

    def reap(self, pid: int) -> Json:
        """Return the status of a child, if it has ended."""
        if pid not in self.children:
            return {"status": 0, "peak": 0}
        end = self.children[pid]
        if end is not None:
            return self._told(pid, end)
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if not found:
            return {"status": None}
        del self.children[pid]
        self._end_orphans()
        return {"status": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss}

    def _end_orphans(self) -> None:
        """End processes that children have left behind which have ended: they are children of this one."""
        while left := [pid for pid in processes.children(os.getpid()) if pid not in self.children]:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)

    def _told(self, pid: int, end: int) -> Json:
        """Return the status of a child in namespaces, as the first process there tells it."""
        try:
            data = os.read(end, PACKET)
        except BlockingIOError:
            return {"status": None}
        os.close(end)
        del self.children[pid]
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return json.loads(data) if data else {"status": -signal.SIGKILL, "peak": 0}


def _wait_for(worker: int, told: int) -> NoReturn:
    """Be the first process of namespaces: wait for all, and end with the worker, which ends all others."""
    _dumpable(False)
    os.dup2(told, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    while True:
        pid, status, usage = os.wait4(-1, 0)
        if pid == worker:
            answer = {"status": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss}
            os.write(3, json.dumps(answer).encode())
            os._exit(0)


def _reseed() -> None:
    """Seed random generators anew, so that forks draw different numbers."""
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()


def _dumpable(allowed: bool) -> None:
    """Set whether children, which run as the same user, may read the memory of this process."""
    _prctl(PR_SET_DUMPABLE, allowed)


def _prctl(what: int, value: bool) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(what, int(value), 0, 0, 0)


def _tried_beside() -> int:
    """Have a process try layers, which takes long with a GPU; return where it tells them."""
    found, told = os.pipe()
    if not os.fork():
        with contextlib.suppress(BaseException):
            os.close(found)
            os.write(told, json.dumps([layer.value for layer in available()]).encode())
        os._exit(0)
    os.close(told)
    return found


def _read(found: int) -> tuple[Layer, ...]:
    """Return the layers that were tried; none if that ended early."""
    with os.fdopen(found, "rb") as file:
        said = file.read()
    os.wait()
    return tuple(map(Layer, json.loads(said))) if said else ()


def main() -> None:
    """Load what children need, and serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    started = time.monotonic()
    asked = Isolation(sys.argv[2])
    found = _tried_beside() if asked is not Isolation.NONE else None
    gc.disable()  # hardly anything that modules create is garbage: collections take a fifth of the time
    for name in sys.argv[3:]:
        importlib.import_module(name)
    gc.enable()
    layers = () if found is None else _read(found)
    server = Server(control, layers)
    _dumpable(False)
    _prctl(PR_SET_CHILD_SUBREAPER, True)
    gc.collect()
    gc.freeze()  # so that children share the pages
    server.prepare()
    said = {"seconds": time.monotonic() - started, "layers": [layer.value for layer in layers]}
    control.send(json.dumps(said).encode())
    server.serve()


if __name__ == "__main__":
    main()
