"""Read sources and write outputs, with an error code for each kind of failure."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import NoReturn

from mucc.compiler.source import PROGRAM, STDIN, decode
from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source, did_you_mean
from mucc.files.atomic import replace_file


def _fail(code: str, message: str, *helps: str) -> NoReturn:
    raise DiagnosticError(Diagnostic(code, message, helps=helps))


LARGEST = 64 << 20
"""The largest size of an input file in bytes, for programs and exported measurements."""


def check_input(path: str) -> None:
    """Check that a file can be read whole. Raises MU5010 or MU5011."""
    try:
        info = os.stat(path)
    except FileNotFoundError:
        _no_file(path)
    except OSError as error:
        _fail("MU5011", f"cannot read '{path}': {error.strerror}")
    if stat.S_ISDIR(info.st_mode):
        _fail("MU5011", f"'{path}' is a directory, not a file")
    if stat.S_ISCHR(info.st_mode) and info.st_rdev != os.makedev(1, 3):  # /dev/null is an empty file
        _fail("MU5011", f"'{path}' is a device, not a file")
    if info.st_size > LARGEST:
        _too_large(f"'{path}'")


def _no_file(path: str) -> NoReturn:
    helps = (f"did you mean '{meant}'?",) if (meant := _similar_file(path)) else ()
    _fail("MU5010", f"there is no file '{path}'", *helps)


def _too_large(name: str) -> NoReturn:
    _fail("MU5011", f"{name} holds more than {LARGEST >> 20} MiB, the most that is read")


def read_bytes(path: str) -> bytes:
    """Read a file, or stdin for `-`. Raises MU5010 or MU5011."""
    try:
        if path == STDIN:
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            _too_large("stdin" if path == STDIN else f"'{path}'")
        return data
    except FileNotFoundError:
        _no_file(path)
    except IsADirectoryError:
        _fail("MU5011", f"'{path}' is a directory, not a file")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        _fail("MU5011", f"cannot read '{path}': {reason}")


def _similar_file(path: str) -> str | None:
    """Find an existing file with a name similar to that of a missing one."""
    directory, name = os.path.split(path)
    stem = os.path.splitext(name)[0]
    try:
        names = os.listdir(directory or ".")
    except OSError:
        return None
    similar = [n for n in names if did_you_mean(stem, [os.path.splitext(n)[0]])]  # equal suffixes say little
    meant = stem + PROGRAM if stem + PROGRAM in names else did_you_mean(name, similar)
    return os.path.join(directory, meant) if meant else None


def read_source(path: str) -> Source:
    """Read and decode a source file, or stdin for `-`. Raises MU5010, MU5011, MU5020, MU5021."""
    return decode(read_bytes(path), path)


def _no_directory(path: str) -> NoReturn:
    directory = os.path.dirname(path)
    if os.path.isdir(directory or "."):
        _fail("MU5014", f"cannot write '{path}': '{directory or '.'}' takes no new files")
    _fail("MU5012", f"cannot write '{path}': there is no directory '{directory}'", f"mkdir -p {directory}")


def check_output(path: str, inputs: tuple[str, ...] = ()) -> None:
    """Check in advance that `write_output` can write a path. Raises MU5001, MU5012 to MU5015."""
    if not path or "\0" in path:
        _fail("MU5001", "the output has an empty name" if not path else f"no file can be called {path!r}")
    directory = os.path.dirname(path) or "."
    if os.path.isdir(path) or path.endswith(os.sep):
        _fail("MU5013", f"cannot write '{path}': it is a directory", "give a file name after -o")
    if not os.path.isdir(directory):
        _no_directory(path)
    if any(os.path.exists(i) and os.path.exists(path) and os.path.samefile(i, path) for i in inputs):
        _fail("MU5015", f"'{path}' is the input: it would be overwritten", "give another name after -o")
    if os.path.exists(path) and not os.access(path, os.W_OK):
        _fail("MU5014", f"cannot write '{path}': permission denied")
    if not os.path.exists(path) and not os.access(directory, os.W_OK | os.X_OK):
        _fail("MU5014", f"cannot write '{path}': permission denied in '{directory}'")


def write_output(path: str, data: bytes, *, executable: bool = False) -> None:
    """Write a file atomically: to a temporary file in the same directory, which is then renamed.

    Special files such as /dev/null are written in place. Raises MU5012 to MU5014.
    """
    try:
        try:
            special = not stat.S_ISREG(os.stat(path).st_mode)
        except FileNotFoundError:
            special = False
        if special:
            with open(path, "wb") as file:
                file.write(data)
            return
        replace_file(os.path.realpath(path), data, 0o777 if executable else 0o666)
    except FileNotFoundError:
        _no_directory(path)
    except IsADirectoryError:
        _fail("MU5013", f"cannot write '{path}': it is a directory", "give a file name after -o")
    except BrokenPipeError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        _fail("MU5014", f"cannot write '{path}': {error.strerror}", *(("free some space",) if full else ()))


def write_stdout(data: bytes) -> None:
    """Write bytes to stdout without encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
