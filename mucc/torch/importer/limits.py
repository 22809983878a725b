"""Resource limits for a process that runs untrusted Python. Imports no torch."""

from __future__ import annotations

import resource
from contextlib import suppress

TORCH_MEMORY = 2 << 30
"""The bytes of main memory allowed for torch itself, on top of the problem file."""

LARGEST_OUTPUT = 256 << 20
"""Bytes of the largest file that the process may write, its answer and what it prints included."""


def limit_process(memory: int, *, addresses: bool = True, files: int = LARGEST_OUTPUT) -> None:
    """Bound address space, files and core dumps of this process from now on; limits are in bytes.

    A process that uses CUDA reserves far more addresses than it has memory: there `addresses` is off, and who
    started it looks at the memory in use.
    """
    with suppress(OSError, ValueError):
        if addresses:
            with open("/proc/self/statm", encoding="ascii") as file:
                now = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
    for what, limit in ((resource.RLIMIT_FSIZE, files), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            resource.setrlimit(what, (limit, limit))
