"""Hooks at each launch of a loaded library: callbacks, and ranges for NVTX.

`MUCC_NVTX=1` has libraries that are loaded from then on mark a range for each call and, in it, one for each
stage, which Nsight Systems and other tools of NVTX show. Ranges are of the host: where it launches.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

SWITCH = "MUCC_NVTX"
"""The environment variable that switches ranges on."""

HOOK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
"""What `mucc_on_launch` of a library takes: called before each launch with the stage and the stream."""

_kept: list[Any] = []
"""Hooks of libraries, which must outlive them."""


@contextmanager
def called_at_launches(library: Path, call: Callable[[str], None]) -> Generator[None]:
    """Call a function with the name of the stage before each launch of a loaded library."""
    _set_hook(library, hook := _hook(call))
    try:
        yield
    finally:
        _set_hook(library, HOOK())
        del hook


def _hook(call: Callable[[str], None]) -> Any:
    def called(stage: bytes, stream: int | None) -> None:
        call(stage.decode())

    return HOOK(called)


def _set_hook(library: Path, hook: Any) -> None:
    door = ctypes.CDLL(str(library)).mucc_on_launch
    door.argtypes, door.restype = [HOOK], None
    door(hook)


class Ranges(Protocol):
    """Nested NVTX ranges of one thread."""

    def push(self, name: str) -> None:
        """Begin a range."""
        ...

    def pop(self) -> None:
        """End the range that was begun last."""
        ...


class _OfPackage:
    """Ranges by the Python package `nvtx`."""

    def __init__(self, nvtx: Any):
        self._nvtx = nvtx

    def push(self, name: str) -> None:
        self._nvtx.push_range(name, domain="mucc")

    def pop(self) -> None:
        self._nvtx.pop_range(domain="mucc")


class _OfTorch:
    """Ranges by PyTorch, which has NVTX in its builds for CUDA."""

    def __init__(self, nvtx: Any):
        self._nvtx = nvtx

    def push(self, name: str) -> None:
        self._nvtx.range_push(name)

    def pop(self) -> None:
        self._nvtx.range_pop()


def ranges() -> Ranges | None:
    """Return what makes ranges where they are switched on; None where not, or where nothing makes them."""
    if os.environ.get(SWITCH, "") in ("", "0"):
        return None
    for name, made in (("nvtx", _OfPackage), ("torch.cuda.nvtx", _OfTorch)):
        try:
            return made(importlib.import_module(name))
        except ImportError:
            continue
    return None


class Annotation:
    """Ranges for the calls and stages of a library."""

    def __init__(self, library: Path, ranges: Ranges):
        self._ranges = ranges
        self._open = threading.local()
        hook = _hook(self._launched)
        _kept.append(hook)
        _set_hook(library, hook)

    def call(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function of the library so that its calls are ranges of this name."""

        def annotated(*args: Any) -> Any:
            self._ranges.push(name)
            try:
                return function(*args)
            finally:
                self._close()
                self._ranges.pop()

        return annotated

    def _launched(self, stage: str) -> None:
        self._close()
        self._ranges.push(stage)
        self._open.stage = True

    def _close(self) -> None:
        """End the range of a stage, which lasts until the next launch or the end of the call."""
        if getattr(self._open, "stage", False):
            self._ranges.pop()
            self._open.stage = False


def annotated(library: Path, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Have functions of a library, by the names of their kernels, mark ranges if these are switched on."""
    made = ranges()
    if made is None:
        return dict(functions)
    annotation = Annotation(library, made)
    return {name: annotation.call(name, function) for name, function in functions.items()}
