"""Run NVRTC in worker processes that live as long as this one.

Loading NVRTC, a tenth of a second that holds the GIL, thus overlaps with the passes; a crash becomes a
diagnostic; compilations can have a time limit; and many kernels without CUTLASS are compiled at once.
"""

from __future__ import annotations

import atexit
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from mucc.build.jobs import AWAKE
from mucc.build.toolchain import nvrtc
from mucc.build.toolchain.nvrtc import Compiled
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.process import machine, reaper

PATIENCE = 120.0
"""The default time limit of a request in seconds; one usually takes 0.03, a convolution up to 2."""

MOST = 16
"""The most worker processes, of about 100 MB each; no more than cores are started."""

_LENGTH = struct.Struct("<Q")


class Worker:
    """A worker process, started for the first request and again after it has died. Thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._why: dict[str, str | None] = {}

    def start(self) -> None:
        """Start the process if it is not running. Raises nothing; later requests report errors."""
        with self._lock:
            try:
                self._running()
            except OSError:
                return

    def why_unusable(self, nvcc: str) -> str | None:
        """Call `nvrtc.why_unusable` in the worker; also returns a reason if the process cannot be run."""
        if nvcc not in self._why:
            try:
                self._why[nvcc] = self._ask(nvrtc.why_unusable, (nvcc,), PATIENCE)
            except DiagnosticError as error:
                self._why[nvcc] = error.diagnostics[0].message
        return self._why[nvcc]

    def compile_ptx(
        self,
        source: str,
        target: str,
        include: Sequence[str],
        name: str,
        timeout: float | None = None,
        *,
        has_kernels: bool = False,
    ) -> Compiled:
        """Call `nvrtc.compile_ptx` in the worker; raises also MU5108 (timeout) and MU5111 (crash)."""
        given = (source, target, tuple(include), name, has_kernels)
        return self._ask(_compile, given, timeout or PATIENCE)

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Let go of the process in a forked child, whose parent goes on with it."""
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.returncode = 0  # so that nothing waits for it
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mucc.build.toolchain.nvrtc_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,  # a forked child has no half of a request to send
                env=environment,
                start_new_session=True,  # Ctrl-C must not reach it; it ends when its input closes
            )
            reaper.watch(self._process.pid)  # though not while it compiles
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            reaper.forget(self._process.pid)
            self._process.wait()
            self._process = None

    def _ask(self, function: Callable[..., Any], arguments: tuple[Any, ...], timeout: float) -> Any:
        with self._lock:
            try:
                process = self._running()
                assert process.stdin is not None and process.stdout is not None
                _send(process.stdin.fileno(), (function.__name__, arguments))
                good, answer = _receive(process.stdout.fileno(), time.monotonic() + timeout)
            except TimeoutError:
                self._end()
                message = f"NVRTC did not end within {timeout:g} s and was stopped"
                raise DiagnosticError(Diagnostic("MU5108", message)) from None
            except (OSError, EOFError) as error:
                self._end()
                raise DiagnosticError(
                    Diagnostic(
                        "MU5111",
                        "NVRTC crashed, or could not be started",
                        notes=(str(error),) if str(error) else (),
                        helps=("--plain-nvcc builds without it; `mucc doctor` shows what was found",),
                    )
                ) from error
            except BaseException:
                self._end()  # an unread answer would be taken for that of the next request
                raise
        if not good:
            raise DiagnosticError(answer)
        return answer


def _send(pipe: int, value: object) -> None:
    data = pickle.dumps(value)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int, deadline: float | None = None) -> Any:
    """Read the next value. Raises EOFError if the other process has ended, TimeoutError."""

    def read(count: int) -> bytes:
        data = b""
        while len(data) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([pipe], [], [], min(left, AWAKE))[0]:
                    if left <= 0:
                        raise TimeoutError
                    continue
            piece = os.read(pipe, count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    return pickle.loads(read(_LENGTH.unpack(read(_LENGTH.size))[0]))


def _compile(source: str, target: str, include: tuple[str, ...], name: str, has_kernels: bool) -> Compiled:
    return nvrtc.compile_ptx(source, target=target, include=include, name=name, has_kernels=has_kernels)


_FUNCTIONS: dict[str, Callable[..., Any]] = {f.__name__: f for f in (_compile, nvrtc.why_unusable)}


class Workers:
    """Workers for requests at the same time, each started when all others compile. Thread-safe.

    `most` defaults to the number of cores, at most `MOST`.
    """

    def __init__(self, most: int | None = None, make: Callable[[], Worker] = Worker) -> None:
        self._make = make
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._first = self._make()
        self._all = [self._first]
        self._idle = [self._first]
        self._free = threading.Condition()

    def start(self) -> None:
        """Start the first process; see `Worker.start`."""
        self._first.start()

    def why_unusable(self, nvcc: str) -> str | None:
        """Return the reason why NVRTC cannot be used; see `Worker.why_unusable`."""
        return self._first.why_unusable(nvcc)

    def compile_ptx(
        self,
        source: str,
        target: str,
        include: Sequence[str],
        name: str,
        timeout: float | None = None,
        *,
        has_kernels: bool = False,
    ) -> Compiled:
        """Compile in a worker that does nothing else; see `Worker.compile_ptx`."""
        worker = self._taken()
        try:
            return worker.compile_ptx(source, target, include, name, timeout, has_kernels=has_kernels)
        finally:
            with self._free:
                self._idle.append(worker)
                self._free.notify()

    def stop(self) -> None:
        """End all processes."""
        for worker in self._all:
            worker.stop()

    def begin_anew(self) -> None:
        """Have workers of its own in a forked child, whatever threads of its parent do with theirs."""
        for worker in self._all:
            worker.forget()
        self._begin()

    def _taken(self) -> Worker:
        """Return an idle worker, or a new one; waits where there are as many as there may be."""
        with self._free:
            if self._most is None:
                self._most = min(MOST, machine.cores())
            while not self._idle:
                if len(self._all) < self._most:
                    self._all.append(worker := self._make())
                    return worker
                self._free.wait(AWAKE)
            return self._idle.pop()


shared = Workers()
"""The workers of this process."""

atexit.register(shared.stop)
os.register_at_fork(after_in_child=shared.begin_anew)


def serve() -> None:
    """Run as the worker process: answer requests until the input closes."""
    answers = os.dup(1)
    os.dup2(2, 1)  # other output must not mix with the answers
    nvrtc.warm_up()
    while True:
        try:
            name, arguments = _receive(0)
        except EOFError:
            return
        try:
            _send(answers, (True, _FUNCTIONS[name](*arguments)))
        except DiagnosticError as error:
            _send(answers, (False, error.diagnostics))


if __name__ == "__main__":
    serve()
