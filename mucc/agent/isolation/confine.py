"""Confine a process to writing within given folders. Imports no torch.

Python's audit events say what was tried, and stop Python. Landlock, where the kernel has it, stops machine
code as well, and keeps the process from sending signals to others and from looking into them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls, the same on all architectures."""

PR_SET_NO_NEW_PRIVS = 38
VERSION, PATH_BENEATH, SCOPE_SIGNAL = 1, 1, 1 << 1

WRITING = (1 << 1) | sum(1 << n for n in range(4, 13))
"""Rights of files that Landlock has known from its first version: to write, remove, and make them; …"""

REFER, TRUNCATE = 1 << 13, 1 << 14
"""… to link or move them elsewhere (from version 2), to truncate them (3)."""

ALWAYS = ("/dev", "/proc")
"""Paths that a process with a GPU has to write."""

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink")
"""Audit events of changes whose arguments begin with paths."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class Confined:
    """Paths elsewhere that a confined process tried to write."""

    def __init__(self, folders: Sequence[str]):
        self.folders = tuple(os.path.realpath(f) for f in (*folders, *ALWAYS))
        self.tried: dict[str, None] = {}
        landlock(self.folders)
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


def landlock(folders: Sequence[str]) -> bool:
    """Make the kernel refuse writes elsewhere; False where it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    version: int = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    if version < 1:
        return False
    rights = WRITING | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    ruleset = _Ruleset(rights, 0, SCOPE_SIGNAL if version >= 6 else 0)
    size = ctypes.sizeof(ruleset) if version >= 6 else 8
    rules: int = libc.syscall(
        CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    if rules < 0:
        return False
    try:
        for folder in folders:
            with contextlib.suppress(OSError):
                place = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                beneath = _Beneath(rights, place)
                libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0))
                os.close(place)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return libc.syscall(RESTRICT_SELF, rules, ctypes.c_uint32(0)) == 0
    finally:
        os.close(rules)
