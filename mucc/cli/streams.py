"""Handle stdin, stdout and stderr that are closed or cannot be written."""

from __future__ import annotations

import codecs
import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


def takes_no_more(error: Exception) -> bool:
    """Whether an error means that stdout cannot be written; errors of other files have a file name."""
    return isinstance(error, OSError) and error.filename is None and error.errno in _FULL


def drop_output(stream: TextIO | None = None) -> None:
    """Redirect a stream, by default stdout, to /dev/null, so that a final flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())


@contextmanager
def printing_to_stderr() -> Generator[None]:
    """Send to stderr what others print to stdout meanwhile, from Python, from C and from processes."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def allow_names() -> None:
    """Let stdout print file names that are not UTF-8 as their bytes, and "?" for what its encoding lacks."""
    if reconfigure := getattr(sys.stdout, "reconfigure", None):
        codecs.register_error(_NAMES, _bytes_or_question_mark)
        reconfigure(errors=_NAMES)


_NAMES = "mucc-names"


def _bytes_or_question_mark(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.replace_errors(error)


def open_closed() -> None:
    """Open /dev/null for closed standard streams, so that no other file gets their descriptors.

    Writes to such a stdout fail; writes to such a stderr are lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            # The lowest free descriptor, which is `number`.
            os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: SIM115
