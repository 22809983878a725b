"""The child's side of the pipe to its parent. Imports no torch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any


class Line:
    """The pipe to the parent."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._in = os.fdopen(incoming, "r", encoding="utf-8")
        self._out = os.fdopen(outgoing, "w", encoding="utf-8")
        self._load: Callable[[str], Any] = json.loads
        self._dump: Callable[[Any], str] = json.dumps

    def requests(self) -> Any:
        """Iterate over requests: objects, or words."""
        for line in self._in:
            yield self._load(line) if line.startswith("{") else line.strip()

    def heard(self) -> Any:
        """Return the next request, an object, within the work for another one. Raises EOFError where the
        parent has ended."""
        line = next(self._in, "")
        if not line:
            raise EOFError
        return self._load(line)

    def say(self, answer: Mapping[str, object]) -> None:
        """Send an answer. Printed output is flushed before: the process may be ended right after."""
        with suppress(Exception):  # it may be anything by now
            sys.stdout.flush()
        self._out.write(self._dump(answer) + "\n")
        self._out.flush()
