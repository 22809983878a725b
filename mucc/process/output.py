"""What a child process prints, in a file without a name."""

from __future__ import annotations

import os
import tempfile

KEPT = 10_000
"""Bytes of its end that are looked at."""

LINES, WIDTH = 8, 200
"""The last lines of those that are shown, and characters of each."""


def notes(lines: str) -> tuple[str, ...]:
    """What a diagnostic says of the last lines that were printed; nothing where there are none."""
    return (f"it printed last:\n{lines}",) if lines else ()


class Printed:
    """The file that a process prints into."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def fileno(self) -> int:
        """The descriptor to print into."""
        return self._file.fileno()

    def end(self) -> str:
        """The last that was printed; nothing once it is closed."""
        if self._file.closed:
            return ""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - KEPT))
        return self._file.read().decode("utf-8", errors="replace").strip()

    def last_lines(self) -> str:
        """Its last lines, each cut where it is long."""
        return "\n".join(line[:WIDTH] for line in self.end().splitlines()[-LINES:])

    def close(self) -> None:
        """Forget it."""
        self._file.close()

    def __enter__(self) -> Printed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
