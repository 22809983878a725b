"""The machine code of kernel libraries, and by how much that of two builds differs.

A library that nvcc links holds fat binaries, which only CUDA's cuobjdump unpacks; one that is put together
from parts holds its cubins as they are, in a section. cuobjdump prints the instructions of either.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CUBIN_SECTION = ".mucc_cubin"
MAGIC = b"\x7fELF"
EM_CUDA = 190
HEADER_BYTES = 64
NO_BITS = 8
"""The type of a section that takes no room in the file."""


# ---- ELF files: the 64-bit little-endian ones -----------------------------------------------------------


def _headers(data: bytes) -> list[tuple[int, ...]]:
    """The section headers: name, type, flags, address, offset, size, link, …"""
    start = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]


def section(data: bytes, name: str) -> bytes | None:
    """The contents of a section of an ELF file; None where there is none of that name."""
    headers = _headers(data)
    names = headers[struct.unpack_from("<H", data, 62)[0]][4] if headers else 0
    for at, _, _, _, offset, size, *_ in headers:
        if data[names + at : data.index(b"\0", names + at)] == name.encode():
            return data[offset : offset + size]
    return None


def elf_size(data: bytes) -> int:
    """The bytes of the ELF file that `data` begins with: what its headers reach to."""
    programs, sections = struct.unpack_from("<QQ", data, 32)
    header, program_size, programs_n, section_size, sections_n = struct.unpack_from("<5H", data, 52)
    ends = [header, programs + program_size * programs_n, sections + section_size * sections_n]
    ends += [offset + size for _, kind, _, _, offset, size, *_ in _headers(data) if kind != NO_BITS]
    return max(ends)


def cubins(data: bytes) -> list[bytes]:
    """The cubins that lie one after another in `data`, with or without padding between them.

    Raises ValueError where one reaches over the end.
    """
    found: list[bytes] = []
    at = data.find(MAGIC)
    while 0 <= at <= len(data) - HEADER_BYTES:
        size = 4
        if struct.unpack_from("<H", data, at + 18)[0] == EM_CUDA:
            size = elf_size(data[at:])
            if at + size > len(data):
                raise ValueError(f"a cubin of {size} bytes begins at byte {at} of {len(data)}")
            found.append(data[at : at + size])
        at = data.find(MAGIC, at + size)
    return found


# ---- what cuobjdump prints ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """One function: its instructions as text, and their 128-bit encodings, which hold the scheduling too."""

    name: str
    instructions: tuple[str, ...]
    encodings: tuple[str, ...]


_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s*/\* (0x[0-9a-f]{16}) \*/\s*")
_SECOND_WORD = re.compile(r"\s*/\* (0x[0-9a-f]{16}) \*/\s*")
_SYMBOL = re.compile(r"\b_Z\w+|\bmucc_\w+")


def parse_sass(text: str) -> list[Function]:
    """The functions in the output of `cuobjdump -sass`. Names of symbols are left out of the instructions."""
    functions: list[Function] = []
    for part in text.split("Function : ")[1:]:
        name, _, listing = part.partition("\n")
        instructions: list[str] = []
        encodings: list[str] = []
        for line in listing.splitlines():
            if match := _INSTRUCTION.fullmatch(line):
                instructions.append(_SYMBOL.sub("<symbol>", " ".join(match[1].split())))
                encodings.append(match[2])
            elif encodings and (match := _SECOND_WORD.fullmatch(line)):
                encodings[-1] += f" {match[1]}"
        functions.append(Function(name.strip(), tuple(instructions), tuple(encodings)))
    return functions


def count_differences(a: Sequence[str], b: Sequence[str]) -> int:
    """How many lines must be changed, inserted or deleted to make `b` of `a`."""
    if a == b:
        return 0
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return sum(max(i2 - i1, j2 - j1) for op, i1, i2, j1, j2 in matcher.get_opcodes() if op != "equal")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two builds: how many `instructions` and `encodings` differ, `of` how many in the first one."""

    instructions: int
    encodings: int
    of: int


def compare(plain: Sequence[Function], split: Sequence[Function]) -> Comparison:
    """Compare builds of one program, whose functions go by other names: each with the one most like it."""
    left = list(split)
    instructions = encodings = 0
    for function in plain:
        if not left:
            instructions += len(function.instructions)
            encodings += len(function.encodings)
            continue
        counts = [count_differences(function.instructions, other.instructions) for other in left]
        nearest = counts.index(min(counts))
        instructions += counts[nearest]
        encodings += count_differences(function.encodings, left.pop(nearest).encodings)
    return Comparison(
        instructions + sum(len(f.instructions) for f in left),
        encodings + sum(len(f.encodings) for f in left),
        sum(len(f.instructions) for f in plain),
    )


# ---- libraries ------------------------------------------------------------------------------------------


def find_cuobjdump() -> str | None:
    """The path of cuobjdump: on PATH, in CUDA_HOME, or where toolkits lie."""
    folders = [os.environ.get("PATH", "")]
    folders += [str(Path(home, "bin")) for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    return shutil.which("cuobjdump", path=os.pathsep.join(folders))


def functions_of(library: Path, cuobjdump: str) -> list[Function]:
    """The functions of all kernels of a library. Raises CalledProcessError and ValueError."""

    def listing(path: Path) -> list[Function]:
        run = subprocess.run([cuobjdump, "-sass", path], capture_output=True, text=True, check=True)
        return parse_sass(run.stdout)

    if (blob := section(library.read_bytes(), CUBIN_SECTION)) is None:
        return listing(library)
    functions: list[Function] = []
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        for i, cubin in enumerate(cubins(blob)):
            path = Path(folder, f"{i}.cubin")
            path.write_bytes(cubin)
            functions += listing(path)
    return functions
