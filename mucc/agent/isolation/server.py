"""The zygote: a process that has loaded torch, and forks one child for each request. Nothing of what children
do happens in it; it never computes with torch, nor touches a GPU, since neither survives a fork.

    python -m mucc.agent.isolation.server SOCKET MODULE...

Requests and answers are JSON in packets:

    {"fork": "mucc.agent.audit.candidate", "folder": …, "env": …, "mark": …}, with pipes  -> {"pid": 17}
    {"reap": 17}    -> {"status": 0, "peak": 123}, its peak in KiB; {"status": null} while it has not ended
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
import traceback

from mucc.agent.isolation.line import Line
from mucc.api.json_types import Json

MARK = "MUCC_CHILD_MARK"
"""The variable by which descendants of a child are found that have left its process group."""

PACKET = 1 << 16
"""Bytes of the largest request."""

PR_SET_DUMPABLE = 4
"""Of prctl: whether other processes of this user may read the memory of the process."""


class Server:
    """Forks children and waits for their ends."""

    def __init__(self, control: socket.socket):
        self.control = control
        self.children: set[int] = set()
        # Where the system finds the mark of this process, and of those that it forks.
        libc = ctypes.CDLL(None)
        libc.getenv.restype = ctypes.c_void_p
        self.mark_at: int | None = libc.getenv(MARK.encode())

    def serve(self) -> None:
        """Answer requests until the pipe closes; then end all children."""
        while True:
            data, pipes, _, _ = socket.recv_fds(self.control, PACKET, 3)
            if not data:
                break
            request = json.loads(data)
            answer = self.reap(request["reap"]) if "reap" in request else self.fork(request, pipes)
            self.control.send(json.dumps(answer).encode())
        for pid in self.children:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def fork(self, request: Json, pipes: list[int]) -> Json:
        """Fork a child that answers requests on its pipes."""
        ready, leads = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            for fd in (ready, leads, *pipes):
                os.close(fd)
            return {"error": error.strerror}
        if not pid:
            try:
                os.setsid()
                os.close(leads)
                self._live(request, pipes)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(leads)
        os.read(ready, 1)  # now it leads a process group
        for fd in (ready, *pipes):
            os.close(fd)
        self.children.add(pid)
        return {"pid": pid}

    def _live(self, request: Json, pipes: list[int]) -> None:
        """Run a child."""
        _dumpable(True)
        kept = [os.dup(fd) for fd in pipes]  # so that none lies where it is about to go
        self.control.detach()
        for place, fd in zip((3, 4, 1, 2), (*kept, kept[2]), strict=True):
            os.dup2(fd, place)
        os.closerange(5, os.sysconf("SC_OPEN_MAX"))
        folder, mark = request["folder"], request["mark"]
        if self.mark_at:
            ctypes.memmove(self.mark_at, mark.encode(), len(mark))
        os.environ.update({**request["env"], MARK: mark, "TMPDIR": folder})
        tempfile.tempdir = None
        os.chdir(folder)
        sys.path[0] = folder
        random.seed()
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()
        gc.unfreeze()
        module = importlib.import_module(request["fork"])
        module.serve(Line(3, 4))
        sys.stdout.flush()
        os._exit(0)  # whatever threads are left

    def reap(self, pid: int) -> Json:
        """Return the status of a child, if it has ended."""
        if pid not in self.children:
            return {"status": 0, "peak": 0}
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if not found:
            return {"status": None}
        self.children.discard(pid)
        return {"status": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss}


def _dumpable(allowed: bool) -> None:
    """Set whether children, which run as the same user, may read the memory of this process."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, int(allowed), 0, 0, 0)


def main() -> None:
    """Load what children need, and serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    started = time.monotonic()
    for name in sys.argv[2:]:
        importlib.import_module(name)
    server = Server(control)
    _dumpable(False)
    gc.collect()
    gc.freeze()  # so that children share the pages
    control.send(json.dumps({"seconds": time.monotonic() - started}).encode())
    server.serve()


if __name__ == "__main__":
    main()
