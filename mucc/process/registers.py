"""What a stopped process was about to execute, as the system tells: nothing that runs in it is asked."""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WORDS = 512
"""Words of a stack that are read, from its top on."""

WORD = struct.Struct("=Q")


BYTES = 64
"""Bytes of machine code that are read where a thread executes code of no file."""


class Place(NamedTuple):
    """A place in machine code: a file and an offset in it.

    Code that was made in memory has no file; of it `code` may have the next bytes.
    """

    file: str
    offset: int
    code: bytes = b""


class Mapping(NamedTuple):
    """A range of addresses with machine code."""

    start: int
    end: int
    offset: int
    file: str


class Code:
    """The machine code that a process has mapped. Raises OSError where the system does not tell.

    Addresses that belonged to a file `before` still count as that file, whatever is mapped there now: a copy
    in place of the file is the same code.
    """

    def __init__(self, pid: int, before: Code | None = None):
        self.found = list(_mappings(pid))
        self._starts = [m.start for m in self.found]
        self._before = before

    def place(self, address: int) -> Place | None:
        """Return what lies at an address; None where that is no machine code."""
        if self._before and (known := self._before.place(address)) and known.file:
            return known
        n = bisect_right(self._starts, address) - 1
        if n < 0 or address >= self.found[n].end:
            return None
        found = self.found[n]
        return Place(found.file, address - found.start + found.offset)


def _mappings(pid: int) -> Iterator[Mapping]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            if "x" not in fields[1]:
                continue
            start, _, end = fields[0].partition("-")
            name = fields[5].rstrip("\n") if len(fields) == 6 else ""
            is_file = name.startswith("/") and fields[4] != "0" and not name.startswith("/memfd:")
            yield Mapping(int(start, 16), int(end, 16), int(fields[2], 16), name if is_file else "")


def working(pid: int, before: Code | None = None) -> list[list[Place]]:
    """Return where the threads of a stopped process are that compute: for each the place of its next
    instruction, and of those that words on its stack point to, the innermost first.

    Threads that wait in a call of the system are left out. Some of the words are no return addresses, but
    numbers that were left there. `before` is the code that was mapped earlier. Raises OSError where the
    system does not tell.
    """
    at = [found for thread in os.listdir(f"/proc/{pid}/task") if (found := _registers(pid, thread))]
    if not at:
        return []
    code = Code(pid, before)
    return [list(_places(pid, code, *found)) for found in at]


def _registers(pid: int, thread: str) -> tuple[int, int] | None:
    """Return the next instruction and the stack of a thread; None where it waits, or has ended."""
    try:
        with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as file:
            fields = file.read().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if len(fields) != 3 or fields[0] != "-1":
        return None
    return int(fields[2], 16), int(fields[1], 16)


def _places(pid: int, code: Code, instruction: int, stack: int) -> Iterator[Place]:
    first = code.place(instruction) or Place("", 0)
    yield first if first.file else first._replace(code=_read(pid, instruction, BYTES))
    data = _read(pid, stack, WORDS * WORD.size)
    for (word,) in WORD.iter_unpack(data[: len(data) // WORD.size * WORD.size]):
        if (found := code.place(word)) is not None:
            yield found


def memory(pid: int, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Return what lies at addresses of a process, so many bytes each; None where there is no memory, and
    nothing at all where the system does not tell."""
    found: list[bytes | None] = []
    with contextlib.suppress(OSError), open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        for address, size in places:
            try:
                file.seek(address)
                data = file.read(size)
            except (OSError, OverflowError, ValueError):
                data = b""
            found.append(data if len(data) == size else None)
    return found


def _read(pid: int, address: int, size: int) -> bytes:
    """Read up to `size` bytes of a process from an address on."""
    with contextlib.suppress(OSError, OverflowError), open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(size)
    return b""
