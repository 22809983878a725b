"""The rows that are finished, in a file that survives being killed at any point.

Each line is a JSON object: a problem, a stage, what the result depends on, and the result. Of several for the
same problem and stage the last counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.lines import Lines

Values = dict[str, Any]


class Records:
    """The finished rows in one file. Raises OSError where it cannot be read or written."""

    def __init__(self, path: Path):
        self.path = path
        self._known: dict[tuple[str, str], tuple[str, Values]] = {}
        self._lines = Lines(path)
        for found in self._lines.found:
            self._take(found)

    def _take(self, found: Mapping[str, Any]) -> None:
        try:
            key = str(found["problem"]), str(found["stage"])
            self._known[key] = str(found["depends"]), dict(found["values"])
        except (ValueError, KeyError, TypeError):
            return  # no row

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
        self._lines.add(row)
        self._known[problem, stage] = depends, dict(values)
