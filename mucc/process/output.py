"""Capture the output of a child process in an anonymous temporary file."""

from __future__ import annotations

import os
import re
import tempfile

KEPT = 10_000
"""The bytes read from the end of the output."""

LINES, WIDTH = 8, 200
"""The most lines shown from the end of the output, and the most characters of each."""


UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Matches characters that change what a terminal shows, tabs and ends of lines aside, and those that no
encoding has."""


def plain(text: str) -> str:
    """Return text with a question mark in the place of each character that is none to be read."""
    return UNSEEN.sub("?", text)


def notes(lines: str) -> tuple[str, ...]:
    """Build the note of a diagnostic with the last lines of output; empty without output."""
    return (f"it printed last:\n{lines}",) if lines else ()


class Printed:
    """An anonymous file for the output of a process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def end(self) -> str:
        """Return the end of the output; empty after `close`."""
        if self._file.closed:
            return ""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(max(0, size - KEPT))
        return self._file.read().decode("utf-8", errors="replace").strip()

    def last_lines(self) -> str:
        """Return the last lines, shortened, as `plain` text."""
        return "\n".join(plain(line[:WIDTH]) for line in self.end().splitlines()[-LINES:])

    def close(self) -> None:
        """Close and delete the file."""
        self._file.close()

    def __enter__(self) -> Printed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
