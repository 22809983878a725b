"""Run the child process that launches kernels, and restart it after a crash or a hang."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.child import UNFIT
from mucc.process import reaper

COMMAND = (sys.executable, "-m", "mucc.measure.tune.child")

START = 120.0
"""Seconds that the process gets until it answers at all: it imports torch."""


class Died(Exception):
    """The process ended, or gave no answer in time (`timeout`); the text says how."""

    def __init__(self, message: str, *, timeout: bool = False):
        super().__init__(message)
        self.timeout = timeout


class Refused(Exception):
    """The process could not do what it was asked for; it is well."""


class Worker:
    """Asks a child process, one question at a time; starts it when need be.

    `command` is what runs `mucc.measure.tune.child.serve`; `device` is the value of CUDA_VISIBLE_DEVICES for
    it, that of this process by default. Leaving the `with` ends the process.
    """

    def __init__(self, command: Sequence[str] | None = None, device: str | None = None):
        self.command = tuple(command or COMMAND)
        self.device = device
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Any = None
        self._buffer = b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def ask(self, timeout: float, **request: object) -> dict[str, Any]:
        """Send a request, return its answer. Raises Died or Refused; after Died a new process is started."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            raise self._died() from None
        answer = json.loads(self._line(process, timeout))
        if answer.get("broken"):
            self.stop()
        if "failed" in answer:
            raise Refused(answer["failed"])
        return answer

    def hello(self) -> Mapping[str, str]:
        """Return the process's description of its GPU. Raises MU5301 without a GPU or a process."""
        try:
            return self.ask(START, do="hello")
        except (Died, Refused) as error:
            which = "" if self.device is None else f" on GPU {self.device} of"
            message = f"kernels cannot be measured{which or ' on'} this machine: {error}"
            helps = (
                "--build-only FOLDER builds here what another machine can measure with --measure-only FOLDER",
            )
            raise DiagnosticError(Diagnostic("MU5301", message, helps=helps)) from None

    def stop(self) -> None:
        """End the process, however busy it is."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        reaper.forget(process.pid)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        self._buffer = b""

    def _start(self) -> subprocess.Popen[bytes]:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self.starts += 1
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=None if self.device is None else {**os.environ, "CUDA_VISIBLE_DEVICES": self.device},
        )
        reaper.watch(process.pid)
        self._process = process
        return process

    def _line(self, process: subprocess.Popen[bytes], timeout: float) -> bytes:
        assert process.stdout is not None
        until = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0:
                self.stop()
                raise Died(f"no answer for {timeout:.0f} s", timeout=True)
            # Short waits: a signal that comes just before one begins must not wait for its end.
            if not select.select([process.stdout], [], [], min(left, 0.2))[0]:
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                raise self._died()
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _died(self) -> Died:
        process = self._process
        status = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(5)
        self._log.seek(0)
        said = self._log.read().decode("utf-8", errors="replace").strip().rpartition("\n")[2].strip()
        self.stop()
        if status == UNFIT:
            return Died(said)
        how = "it ended"
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                how = f"the process died ({signal.Signals(-status).name})"
        elif status:
            how = f"the process ended with status {status}"
        return Died(f"{how}: {said}" if said else how)
