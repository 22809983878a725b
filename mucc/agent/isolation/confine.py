"""Notice what Python code tries to write outside of given folders, and stop it there. Imports no torch.

The layers of `mucc.api.sandbox` stop machine code as well; audit events of Python say what was tried.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

ALWAYS = ("/dev", "/proc")
"""Paths that a process with a GPU has to write."""

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink")
"""Audit events of changes whose arguments begin with paths."""


class Confined:
    """Paths elsewhere that a confined process tried to write."""

    def __init__(self, folders: Sequence[str]):
        self.folders = tuple(os.path.realpath(f) for f in (*folders, *ALWAYS))
        self.tried: dict[str, None] = {}
        sys.addaudithook(self._event)

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if writes and isinstance(path, str | bytes):
                self._check(path)
        elif event in CHANGES:
            for path in args[:2]:
                if isinstance(path, str | bytes):
                    self._check(path)

    def _check(self, path: str | bytes) -> None:
        real = os.path.realpath(os.fsdecode(path))
        if any(real == folder or real.startswith(f"{folder}/") for folder in self.folders):
            return
        self.tried[real] = None
        raise PermissionError(f"it may not write '{real}', outside its folder")
