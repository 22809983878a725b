"""Names of functions in a file of machine code (ELF of 64 bits), by where their code lies in the file."""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

EXECUTED = 1
"""The flag of ELF segments that have machine code (PF_X)."""

LOADED, ALL_SYMBOLS, SHARED_SYMBOLS, FUNCTION = 1, 2, 11, 2
"""Of ELF: a segment that is loaded, the two tables of symbols, and a symbol that is a function."""

WORDS = 3
"""A symbol is three words of 64 bits: name and kind, address, size."""

INDEX = 32
"""Bits of a symbol's number, in one whole number with its address."""

UNSIZED = 1 << 14
"""Bytes that a function has at the most whose size is not told."""

NEAR = 8
"""Symbols before an address that are looked at: some are labels within functions."""


class Symbols:
    """The functions of a file. Raises OSError, and ValueError for a file that is none."""

    def __init__(self, path: str):
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._read(self._data)
        except (struct.error, IndexError):
            raise ValueError(f"{path} is no file of machine code") from None

    def _read(self, data: mmap.mmap) -> None:
        head = HEADER.unpack_from(data)
        if head[0][:6] != b"\x7fELF\x02\x01":
            raise IndexError
        segments: list[tuple[int, ...]] = [
            SEGMENT.unpack_from(data, head[5] + n * head[9]) for n in range(head[10])
        ]
        self._loaded = [s for s in segments if s[0] == LOADED]
        sections: list[tuple[int, ...]] = [
            SECTION.unpack_from(data, head[6] + n * head[11]) for n in range(head[12])
        ]
        self._order: list[int] = []
        tables = sorted((s for s in sections if s[1] in (ALL_SYMBOLS, SHARED_SYMBOLS)), key=lambda s: s[1])
        if not tables:
            return
        _, _, _, _, self._table, size, link, *_ = tables[0]
        self._names = int(sections[link][4])
        table = memoryview(data[self._table : self._table + size // SYMBOL.size * SYMBOL.size])
        addresses = table.cast("Q")[1::WORDS].tolist()
        self._order = sorted([at << INDEX | n for n, at in enumerate(addresses) if at])

    def find(self, code: bytes) -> int | None:
        """Return the offset of the first occurrence of bytes in the file's machine code; None without one."""
        for _, flags, offset, _, _, size, *_ in self._loaded:
            if flags & EXECUTED and (at := self._data.find(code, offset, offset + size)) >= 0:
                return at
        return None

    def name(self, offset: int) -> str:
        """Return the mangled name of the function at an offset of the file; "" where there is none."""
        address = next((offset - s[2] + s[3] for s in self._loaded if 0 <= offset - s[2] < s[5]), None)
        if address is None:
            return ""
        n = bisect_right(self._order, (address + 1 << INDEX) - 1)
        for key in reversed(self._order[max(n - NEAR, 0) : n]):
            where = self._table + (key & (1 << INDEX) - 1) * SYMBOL.size
            name, kind, _, _, at, size = SYMBOL.unpack_from(self._data, where)
            if kind & 0xF == FUNCTION and address < at + (size or UNSIZED):
                start = self._names + name
                return self._data[start : self._data.find(b"\0", start)].decode(errors="replace")
        return ""
