"""Processes that layers confine, for tests of what these refuse."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mucc.process.sandbox.layers import available, enter
from mucc.process.sandbox.modes import Layer
from mucc.process.sandbox.namespaces import leave_namespaces
from mucc.process.sandbox.places import Places

MIB = 1 << 20
QUOTA = 8 * MIB

AVAILABLE = available()


def needs(layers: Sequence[Layer]) -> None:
    missing = [layer.value for layer in layers if layer not in AVAILABLE]
    if missing:
        pytest.skip(f"this machine does not allow {', '.join(missing)}")


def confined(place: Places, layers: Sequence[Layer] | None, attack: Callable[[], Any]) -> Any:
    """Run a function in a confined process, and return what it returned, or the name of what it raised.

    Without `layers` it is a process like others.
    """
    reading, writing = os.pipe()
    first = os.fork()
    if not first:
        with contextlib.suppress(BaseException):
            if layers is not None and Layer.NAMESPACES in layers:
                leave_namespaces()
                if worker := os.fork():
                    os.waitpid(worker, 0)
                    os._exit(0)
            if layers is not None:
                enter(place, layers)
            try:
                said = attack()
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writing, json.dumps(said).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    os.waitpid(first, 0)
    assert answer, "the process could not be confined"
    return json.loads(answer)


def refused(said: Any) -> bool:
    return isinstance(said, str) and any(
        word in said
        for word in (
            "PermissionError",
            "FileNotFoundError",
            "OSError",
            "ProcessLookupError",
            "ConnectionRefusedError",
        )
    )
