"""stdin, stdout and stderr where they are closed, or take nothing more."""

from __future__ import annotations

import errno
import os
import sys

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def takes_no_more(error: Exception) -> bool:
    """Whether an error says that stdout can no longer be written to; errors of files have a name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def drop_output() -> None:
    """Send what Python would still write to stdout, and complain about, to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_closed() -> None:
    """Open those streams that are closed, so that no other file gets their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest number that is free, so this one.
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
