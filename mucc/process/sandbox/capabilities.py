"""Give up the rights of the superuser, which pass by what other layers refuse."""

from __future__ import annotations

import ctypes
import os

PR_CAPBSET_DROP = 24
LAST_CAPABILITY = 63
VERSION_3 = 0x20080522
"""The layout of the arguments of `capset`, since Linux 2.6.26."""


def drop() -> None:
    """Give up all capabilities, also for programs that are started. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):
        raise OSError(ctypes.get_errno(), f"capset: {os.strerror(ctypes.get_errno())}")
