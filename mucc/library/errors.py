"""Exceptions of the run time: each has a code, and is also a TypeError, ValueError or RuntimeError."""

from __future__ import annotations

import re


class MuccError(Exception):
    """A failure with a code such as MU6006 and a message; `mucc explain CODE` explains it."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class MuccTypeError(MuccError, TypeError):
    """An argument of the wrong kind or dtype, or the wrong number of them."""


class MuccValueError(MuccError, ValueError):
    """An argument of the right type with a shape, device, layout or alignment that does not fit."""


class MuccRuntimeError(MuccError, RuntimeError):
    """A failure for other reasons than arguments: a file, CUDA, memory."""


_CODED = re.compile(r"(MU\d{4}): (.*)", re.DOTALL)


def translated(error: BaseException) -> BaseException:
    """Convert a library's error text to an exception with a code; other errors are returned unchanged."""
    if isinstance(error, MuccError) or not (match := _CODED.match(str(error))):
        return error
    kinds = {TypeError: MuccTypeError, ValueError: MuccValueError}
    kind = next((ours for theirs, ours in kinds.items() if isinstance(error, theirs)), MuccRuntimeError)
    return kind(match[1], match[2])
