"""Restrict the files of this process, and what it reaches in others, by Landlock. Imports no torch."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""Numbers of Landlock's system calls, the same on all architectures."""

PR_SET_NO_NEW_PRIVS = 38
VERSION, PATH_BENEATH = 1, 1

EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
READING = EXECUTE | READ_FILE | READ_DIR

WRITING = (1 << 1) | sum(1 << n for n in range(4, 13))
"""Rights of files that Landlock has known from its first version: to write, remove, and make them; …"""

REFER, TRUNCATE = 1 << 13, 1 << 14
"""… to link or move them elsewhere (from version 2), to truncate them (3)."""

OF_FILES = EXECUTE | (1 << 1) | READ_FILE | TRUNCATE
"""Rights that a rule about a file, and not a folder, may have."""

BIND_TCP, CONNECT_TCP = 1 << 0, 1 << 1
"""Rights of the network, from version 4; all are refused."""

SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNAL = 1 << 0, 1 << 1
"""What reaches processes outside, from version 6."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def version() -> int:
    """Return the version of Landlock that the kernel has; below 1 where it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))


def restrict(writable: Sequence[str], readable: Sequence[str] | None = None) -> bool:
    """Refuse writes outside of `writable`, reads outside of both lists, TCP, and signals to and looks into
    processes outside; False where the kernel cannot. Without `readable` all may be read.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    known = version()
    if known < 1:
        return False
    writing = WRITING | (REFER if known >= 2 else 0) | (TRUNCATE if known >= 3 else 0)
    reading = 0 if readable is None else READING
    network = BIND_TCP | CONNECT_TCP if known >= 4 else 0
    scoped = SCOPE_SIGNAL | SCOPE_ABSTRACT_SOCKETS if known >= 6 else 0
    ruleset = _Ruleset(writing | reading, network, scoped)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    rules: int = libc.syscall(
        CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    if rules < 0:
        return False
    try:
        wanted = [(path, writing | reading) for path in writable]
        for path, rights in [*wanted, *((path, reading) for path in readable or ())]:
            with contextlib.suppress(OSError):
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights if os.path.isdir(path) else rights & OF_FILES
                beneath = _Beneath(allowed, place)
                libc.syscall(ADD_RULE, rules, PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0))
                os.close(place)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return libc.syscall(RESTRICT_SELF, rules, ctypes.c_uint32(0)) == 0
    finally:
        os.close(rules)
