"""Read the machine code of libraries: cubins, disassembly by cuobjdump, and the resources of kernels.

A library linked by nvcc has fat binaries, which only CUDA's cuobjdump unpacks. A library built from parts has
its cubins in an ELF section. cuobjdump disassembles both.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mucc.build.toolchain.discover import find_nvcc
from mucc.diagnostics.core import DiagnosticError

CUBIN_SECTION = ".mucc_cubin"
MAGIC = b"\x7fELF"
EM_CUDA = 190
HEADER_BYTES = 64
NO_BITS = 8
"""The type of a section without bytes in the file (SHT_NOBITS)."""


# ---- ELF files: the 64-bit little-endian ones -----------------------------------------------------------


def _headers(data: bytes) -> list[tuple[int, ...]]:
    """Parse the section headers: name, type, flags, address, offset, size, link, …"""
    start = struct.unpack_from("<Q", data, 40)[0]
    size, count = struct.unpack_from("<HH", data, 58)
    return [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]


def section(data: bytes, name: str) -> bytes | None:
    """Return the contents of a section of an ELF file; None without a section of that name."""
    headers = _headers(data)
    for header in headers:
        if _name(data, headers, header) == name:
            return data[header[4] : header[4] + header[5]]
    return None


def elf_size(data: bytes) -> int:
    """Compute the size in bytes of the ELF file at the start of `data`, from its headers."""
    programs, sections = struct.unpack_from("<QQ", data, 32)
    header, program_size, programs_n, section_size, sections_n = struct.unpack_from("<5H", data, 52)
    ends = [header, programs + program_size * programs_n, sections + section_size * sections_n]
    ends += [offset + size for _, kind, _, _, offset, size, *_ in _headers(data) if kind != NO_BITS]
    return max(ends)


def cubins(data: bytes) -> list[bytes]:
    """Split consecutive cubins, with or without padding between them.

    Raises ValueError for a truncated cubin.
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


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a kernel: registers per thread, bytes of stack and static shared memory, threads.

    `threads` is the most threads of a block, 0 without a bound. A kernel that redistributes registers between
    warps (setmaxnreg) starts with this number of registers.
    """

    kernel: str
    registers: int
    stack: int
    shared: int
    threads: int


REGISTERS, FRAME, THREADS = 0x2F, 0x11, 0x05
"""Attributes of `.nv.info` sections: EIATTR_REGCOUNT, EIATTR_FRAME_SIZE, EIATTR_MAX_THREADS, as nvdisasm and
`cuobjdump -elf` call them. Checked against `cuobjdump -res-usage` of CUDA 13.0."""

SIZED = 4
"""The form of an attribute whose second word is the size in bytes of the data that follows."""


def resources(cubin: bytes) -> list[Resources]:
    """Read the resources of a cubin's kernels from its sections, without CUDA's tools.

    Raises ValueError for a damaged cubin.
    """
    try:
        return _resources(cubin)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"a cubin is damaged: {error}") from None


def _resources(cubin: bytes) -> list[Resources]:
    headers = _headers(cubin)
    sections = {_name(cubin, headers, h): h for h in headers}
    given: dict[int, dict[int, int]] = {REGISTERS: {}, FRAME: {}}
    for kind, content in _attributes(cubin, sections.get(".nv.info")):
        if kind in given and len(content) >= 8:
            symbol, value = struct.unpack_from("<II", content)
            given[kind][symbol] = value
    found: list[Resources] = []
    for title, header in sections.items():
        if not title.startswith(".text."):
            continue
        name, symbol = title.removeprefix(".text."), header[7] & 0xFFFFFF
        threads = 0
        for kind, content in _attributes(cubin, sections.get(f".nv.info.{name}")):
            if kind == THREADS and len(content) >= 12:
                x, y, z = struct.unpack_from("<III", content)
                threads = x * y * z
        shared = sections.get(f".nv.shared.{name}")
        registers, frame = given[REGISTERS].get(symbol, 0), given[FRAME].get(symbol, 0)
        found.append(Resources(name, registers, frame, shared[5] if shared else 0, threads))
    return found


def _name(data: bytes, headers: list[tuple[int, ...]], header: tuple[int, ...]) -> str:
    at = headers[struct.unpack_from("<H", data, 62)[0]][4] + header[0]
    return data[at : data.index(b"\0", at)].decode(errors="replace")


def _attributes(data: bytes, header: tuple[int, ...] | None) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of the attributes of a `.nv.info` section."""
    at, end = (header[4], header[4] + header[5]) if header else (0, 0)
    while at + 4 <= end:
        form, kind, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == SIZED:
            yield kind, data[at : at + size]
            at += size


# ---- what cuobjdump prints ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its instructions as text, and their 128-bit encodings, which include scheduling."""

    name: str
    instructions: tuple[str, ...]
    encodings: tuple[str, ...]


_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;?\s*/\* (0x[0-9a-f]{16}) \*/\s*")
_SECOND_WORD = re.compile(r"\s*/\* (0x[0-9a-f]{16}) \*/\s*")
_SYMBOL = re.compile(r"\b_Z\w+|\bmucc_\w+")


def parse_sass(text: str) -> list[Function]:
    """Parse the output of `cuobjdump -sass`. Names of symbols are replaced in the instructions."""
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


# ---- libraries ------------------------------------------------------------------------------------------


def find_cuobjdump() -> str | None:
    """Find cuobjdump: on PATH, in CUDA_HOME, in /usr/local/cuda, or next to nvcc; None without one."""
    folders = [os.environ.get("PATH", "")]
    folders += [str(Path(home, "bin")) for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
    if found := shutil.which("cuobjdump", path=os.pathsep.join(folders)):
        return found
    try:
        nvcc = find_nvcc()
    except DiagnosticError:
        return None
    return nvcc and shutil.which("cuobjdump", path=os.path.dirname(os.path.realpath(nvcc.path)))


def cubins_of(library: Path) -> list[bytes] | None:
    """Read the cubins of a library; None for a library of fat binaries. Raises OSError and ValueError."""
    data = library.read_bytes()
    if data[:4] != MAGIC:
        raise ValueError(f"'{library}' is no ELF file")
    try:
        blob = section(data, CUBIN_SECTION)
        return None if blob is None else cubins(blob)
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError(f"'{library}' is damaged: {error}") from None


def disassembled(path: Path, cuobjdump: str, timeout: float | None = None) -> list[Function]:
    """Disassemble a cubin, or a library of fat binaries. Raises OSError and SubprocessError."""
    command = [cuobjdump, "-sass", str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout)
    return parse_sass(run.stdout)


def functions_of(library: Path, cuobjdump: str) -> list[Function]:
    """Disassemble all kernels of a library. Raises CalledProcessError, OSError and ValueError."""
    if (found := cubins_of(library)) is None:
        return disassembled(library, cuobjdump)
    functions: list[Function] = []
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder:
        for i, cubin in enumerate(found):
            path = Path(folder, f"{i}.cubin")
            path.write_bytes(cubin)
            functions += disassembled(path, cuobjdump)
    return functions
