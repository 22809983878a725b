"""Child processes that answer requests in lines of JSON, and may do what they like beside that."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from mucc import guard
from mucc.family import End, Family

MARK = "MUCC_AUDIT_MARK"
"""The variable by which descendants are found that have left the process group."""

SAID = 8
"""Lines of what a process printed last that are shown."""

DYING = 2.0
"""Seconds that a process which has closed its pipe gets to end of itself."""

LONGEST = 1 << 24
"""Bytes of the longest answer."""


class ChildFailed(Exception):
    """The process gave no answer: `reason` in words, and what it printed last."""

    def __init__(self, reason: str, printed: str):
        super().__init__(reason)
        self.reason = reason
        self.printed = printed


class Child:
    """One process with bounded time and memory; ends with all its descendants.

    `memory` is in bytes of main memory, `seconds` is for all requests together. It works in `folder`, and its
    temporary files go there.
    """

    def __init__(
        self, module: str, folder: str, seconds: float, memory: int, env: Mapping[str, str] | None = None
    ):
        self.seconds, self.memory = seconds, memory
        self._until = time.monotonic() + seconds
        self._mark = secrets.token_hex(16)
        self._log = _log()
        self._buffer = b""
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs_in), str(theirs_out)],
                stdin=subprocess.DEVNULL,
                stdout=self._log.fileno(),
                stderr=self._log.fileno(),
                pass_fds=(theirs_in, theirs_out),
                env={
                    **_environment(),
                    "TMPDIR": folder,
                    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                    "PYTHONDONTWRITEBYTECODE": "1",
                    **(env or {}),
                    MARK: self._mark,
                },
                cwd=folder,
                start_new_session=True,
            )
        except BaseException:
            os.close(self._in)
            os.close(self._out)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._family = Family(self._process.pid)
        guard.watch(self._process.pid)

    def extend(self, seconds: float) -> None:
        """Give the process more time: it had to wait for something else."""
        self._until += seconds

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to a request. Raises ChildFailed."""
        self.tell(json.dumps(request))
        return self.answer()

    def tell(self, *lines: str) -> None:
        """Send requests without waiting. Raises ChildFailed where nobody listens."""
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            raise self._failed("ended") from None

    def answer(self) -> dict[str, Any]:
        """The next answer. Raises ChildFailed."""
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 0.2)
            if ready:
                data = os.read(self._in, 1 << 16)
                if not data:
                    self._family.wait(DYING, ())
                    raise self._failed("ended")
                self._buffer += data
            elif self._family.wait(0, ()) is End.OF_ITSELF and not select.select([self._in], [], [], 0)[0]:
                raise self._failed("ended")
            if time.monotonic() >= self._until:
                raise self._failed(f"did not end within {self.seconds:g} s and was stopped")
            if self._family.peak > self.memory:
                raise self._failed(f"took more than the {self.memory >> 20} MiB of memory that it may")
            if len(self._buffer) > LONGEST:
                raise self._failed("answered without end")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._failed("gave an answer that is none") from None
        if not isinstance(answer, dict):
            raise self._failed("gave an answer that is none")
        return answer  # pyright: ignore[reportUnknownVariableType]

    def _failed(self, reason: str) -> ChildFailed:
        status = self.close()
        if reason == "ended":
            reason = f"ended with signal {-status}" if status < 0 else f"ended with status {status}"
        return ChildFailed(reason, self.printed())

    def processor_seconds(self) -> float:
        """The time that processors have spent on the threads of the process."""
        total = 0
        with contextlib.suppress(OSError, ValueError, IndexError):
            tasks = f"/proc/{self._process.pid}/task"
            for task in os.listdir(tasks):
                with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                    total += int(file.read().split()[0])
        return total / 1e9

    def printed(self) -> str:
        """The last lines of what the process printed."""
        if self._log.closed:
            return ""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 10_000))
        text = self._log.read().decode("utf-8", errors="replace")
        return "\n".join(line[:200] for line in text.strip().splitlines()[-SAID:])

    def close(self) -> int:
        """End the process and its descendants; its status."""
        if self._process.returncode is None:
            self._process.returncode, _ = self._family.end()
            for end in (self._in, self._out):
                os.close(end)
            _kill_marked(self._mark)
        return self._process.returncode

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._log.close()


def _log() -> IO[bytes]:
    """A file without a name for what the process prints."""
    return tempfile.TemporaryFile()


def _environment() -> dict[str, str]:
    """The variables of this process, without those that hold a secret."""
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    return {name: value for name, value in os.environ.items() if not any(s in name.upper() for s in secret)}


def _kill_marked(mark: str) -> None:
    """Kill whoever inherited the mark, until nobody is left."""
    for _ in range(10):
        if not (found := _marked(f"{MARK}={mark}".encode())):
            return
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(mark: bytes) -> Sequence[int]:
    found: list[int] = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found
