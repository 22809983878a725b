"""stdin, stdout and stderr where they are closed, or take nothing more."""

from __future__ import annotations

import errno
import os
import sys
from typing import TextIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


def takes_no_more(error: Exception) -> bool:
    """Whether an error says that stdout can no longer be written to; errors of files have a name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def drop_output(stream: TextIO | None = None) -> None:
    """Send what Python would still write to stdout or another stream, and complain about, to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


def allow_names() -> None:
    """Let stdout take names of files that are not UTF-8, as the bytes that they are."""
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        reconfigure(errors="surrogateescape")


def open_closed() -> None:
    """Open those streams that are closed, so that no other file gets their numbers.

    What is written to stdout then fails: nobody gets it. What is written to stderr is lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free, so this one.
            os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
