"""The rows that are finished, in a file that survives being killed at any point.

Each line is a JSON object: a problem, a stage, what the result depends on, and the result. Lines are only
appended, each by one write, and of several for the same problem and stage the last counts. What a write that
was cut short has left is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Values = dict[str, Any]


class Records:
    """The finished rows in one file. Raises OSError where it cannot be read or written."""

    def __init__(self, path: Path):
        self.path = path
        self._known: dict[tuple[str, str], tuple[str, Values]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        for line in text.splitlines():
            self._take(line)
        if text and not text.endswith(b"\n"):
            self._append(b"\n")

    def _take(self, line: bytes) -> None:
        try:
            found = json.loads(line)
            key = str(found["problem"]), str(found["stage"])
            self._known[key] = str(found["depends"]), dict(found["values"])
        except (ValueError, KeyError, TypeError):
            return  # cut short

    def find(self, problem: str, stage: str, depends: str | None = None) -> Values | None:
        """A finished row; None where there is none, or where it depends on something else."""
        found = self._known.get((problem, stage))
        return None if found is None or depends not in (None, found[0]) else found[1]

    def depends(self, problem: str, stage: str) -> str:
        """What a finished row depends on; empty where there is none."""
        return self._known.get((problem, stage), ("", {}))[0]

    def add(self, problem: str, stage: str, depends: str, values: Mapping[str, Any]) -> None:
        """Keep a row. It is on the disk when this returns."""
        row = {"problem": problem, "stage": stage, "depends": depends, "values": dict(values)}
        self._append(json.dumps(row).encode() + b"\n")
        self._known[problem, stage] = depends, dict(values)

    def _append(self, data: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
