"""A child process's side of its conversation with us. Imports no torch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


class Line:
    """The pipe to whoever asks."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._in = os.fdopen(incoming, "r", encoding="utf-8")
        self._out = os.fdopen(outgoing, "w", encoding="utf-8")
        self._load: Callable[[str], Any] = json.loads
        self._dump: Callable[[Any], str] = json.dumps

    def requests(self) -> Any:
        """Each request: an object, or a word."""
        for line in self._in:
            yield self._load(line) if line.startswith("{") else line.strip()

    def say(self, answer: Mapping[str, object]) -> None:
        """Answer. What was printed is written before: the process may be ended right after."""
        with suppress(Exception):  # it may be anything by now
            sys.stdout.flush()
        self._out.write(self._dump(answer) + "\n")
        self._out.flush()
