"""Run commands with limits on time and output, and end all processes that they started."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from mucc.api import processes
from mucc.api.processes import End, Family, end_strays

MARK = "MUCC_COMMAND_MARK"
"""The variable by which descendants are found that have left the process group."""

LOOK = 0.25
"""Seconds between checks of the size of the output."""

LONGEST = 4 << 20
"""Bytes that a command may print, on each of stdout and stderr."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended.

    `status` is negative for a signal. `stopped` says why it was ended, and is empty where it ended of itself.
    `out` and `err` are the beginnings of what it printed.
    """

    status: int
    out: str
    err: str
    seconds: float
    stopped: str = ""

    @property
    def how(self) -> str:
        """The way in which the command ended, in words."""
        return self.stopped or (f"ended with {'signal' if self.status < 0 else 'status'} {abs(self.status)}")


def python(module: str) -> tuple[list[str], dict[str, str]]:
    """Return the command line that runs a module of mucc in this interpreter, and its environment.

    It finds what this process finds, and nothing that lies in the folder that it works in: a file there that
    is called like a module must not be taken for one.
    """
    here = os.path.realpath(os.getcwd())
    paths = [p for p in sys.path if p and (os.path.realpath(p) != here or os.path.isdir(f"{p}/mucc"))]
    return [sys.executable, "-P", "-m", module], {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run(
    words: Sequence[str],
    *,
    seconds: float,
    given: str = "",
    longest: int = LONGEST,
    folder: str | None = None,
    env: Mapping[str, str] | None = None,
    stops: Sequence[threading.Event] = (),
) -> Ended:
    """Run a command with `given` on its stdin, until it ends or exceeds a limit, or one of `stops` is set.

    When this returns, or raises, all processes that it started have ended. Raises OSError where it cannot be
    started.
    """
    mark = secrets.token_hex(16)
    begun = time.monotonic()
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        asked.write(given.encode("utf-8", errors="surrogateescape"))
        asked.seek(0)
        process = subprocess.Popen(
            words,
            stdin=asked.fileno(),
            stdout=out.fileno(),
            stderr=err.fileno(),
            cwd=folder,
            env={**(os.environ if env is None else env), MARK: mark},
            start_new_session=True,
        )
        family = Family(process.pid)
        processes.watch(process.pid)
        try:
            stopped = _wait(family, (out, err), seconds, longest, stops)
        finally:
            process.returncode, _ = family.end()
            end_strays(f"{MARK}={mark}")
        said, told = (_beginning(file, longest) for file in (out, err))
        return Ended(process.returncode, said, told, time.monotonic() - begun, stopped)


def _wait(
    family: Family, files: Sequence[IO[bytes]], seconds: float, longest: int, stops: Sequence[threading.Event]
) -> str:
    """Wait until the command ends; return the reason to end it, empty where it ended by itself."""
    until = time.monotonic() + seconds
    while True:
        end = family.wait(max(min(LOOK, until - time.monotonic()), 0), stops)
        if any(os.fstat(file.fileno()).st_size > longest for file in files):
            return f"printed more than {longest >> 10} KiB"
        if end is End.OF_ITSELF:
            return ""
        if end is End.CALLED_OFF:
            return "was called off"
        if time.monotonic() >= until:
            return f"did not end within {seconds:g} s"


def _beginning(file: IO[bytes], longest: int) -> str:
    file.seek(0)
    return file.read(longest).decode("utf-8", errors="replace")
