"""Read a kernel library's manifest and check that it can be loaded, without running code of it."""

from __future__ import annotations

import platform
import stat
import struct
from pathlib import Path
from typing import NamedTuple

from mucc.library.checksum import seal_state
from mucc.library.errors import MuccRuntimeError
from mucc.library.signature import Manifest, ManifestError

_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le", 3: "i386", 40: "arm"}
_SHARED_OBJECT = 3
_LOAD_SEGMENT = 1
_DYNAMIC_SYMBOLS = 11
_NO_DATA = 8


class _Section(NamedTuple):
    name: bytes
    type: int
    offset: int
    size: int
    link: int


def read_manifest(path: Path) -> Manifest:
    """Return the manifest of a library that can be loaded on this machine.

    Raises `MuccRuntimeError`: MU6030 unreadable, MU6031 no shared library or damaged, MU6032 for another
    processor, MU6033 not made by mucc, MU6034 of another ABI, MU6035 a broken manifest, MU6036 a missing
    symbol.
    """
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # what a device or a pipe gives may not end
            raise MuccRuntimeError("MU6031", f"'{path}' is a device or a pipe, not a shared library")
        data = path.read_bytes()
    except OSError as error:
        raise MuccRuntimeError("MU6030", f"cannot read '{path}': {error.strerror}") from None
    except ValueError as error:  # a zero byte in the name
        raise MuccRuntimeError("MU6030", f"cannot read {str(path)!r}: {error}") from None
    _check_header(path, data)
    if seal_state(data) == "broken":
        raise MuccRuntimeError(
            "MU6031", f"'{path}' is damaged: its contents are not what mucc wrote (checksum)"
        )
    try:
        sections = _sections(data)
        symbols = _symbols(data, sections)
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise MuccRuntimeError("MU6031", f"'{path}' is damaged: {error}") from None
    section = next((s for s in sections if s.name == b".mucc_manifest"), None)
    if section is None or section.type == _NO_DATA:
        raise MuccRuntimeError(
            "MU6033", f"'{path}' is a shared library, but mucc did not make it: it has no manifest"
        )
    text = data[section.offset : section.offset + section.size].split(b"\0", 1)[0]
    try:
        manifest = Manifest.parse(text)
    except ManifestError as error:
        code = "MU6035" if error.newer is None else "MU6034"
        raise MuccRuntimeError(code, f"cannot load '{path}': its manifest: {error}") from None
    wanted = [
        s for k in manifest.kernels for s in (k.symbol, f"__tvm_ffi_{k.ffi}", f"__tvm_ffi_{k.ffi}_workspace")
    ]
    if missing := [s for s in wanted if s.encode() not in symbols]:
        raise MuccRuntimeError("MU6036", f"cannot load '{path}': it does not export {', '.join(missing)}")
    return manifest


def _check_header(path: Path, data: bytes) -> None:
    if data[:4] != b"\x7fELF":
        what = "is empty" if not data else "is not a shared library"
        raise MuccRuntimeError("MU6031", f"'{path}' {what}")
    if len(data) < 64 or data[4] != 2 or data[5] != 1:
        what = "is cut off" if len(data) < 64 else "is not a 64-bit little-endian library"
        raise MuccRuntimeError("MU6031", f"'{path}' {what}")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != _SHARED_OBJECT:
        raise MuccRuntimeError("MU6031", f"'{path}' is an ELF file, but not a shared library")
    if (theirs := _MACHINES.get(machine, f"machine {machine}")) != (ours := platform.machine()):
        raise MuccRuntimeError("MU6032", f"'{path}' is for {theirs}, this machine is {ours}")
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
    end = sections + section_size * section_count
    if segments + segment_size * segment_count <= len(data):
        for i in range(segment_count):
            at = segments + i * segment_size
            if struct.unpack_from("<I", data, at)[0] == _LOAD_SEGMENT:
                offset, _, _, size = struct.unpack_from("<QQQQ", data, at + 8)
                end = max(end, offset + size)
    else:
        end = segments + segment_size * segment_count
    if end > len(data):
        raise MuccRuntimeError("MU6031", f"'{path}' is cut off: {len(data)} bytes of at least {end}")


def _sections(data: bytes) -> list[_Section]:
    start = struct.unpack_from("<Q", data, 40)[0]
    size, count, names_index = struct.unpack_from("<HHH", data, 58)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    if not raw:
        return []
    names = raw[names_index][4]
    found: list[_Section] = []
    for name, kind, _, _, offset, length, link, *_ in raw:
        if kind != _NO_DATA and offset + length > len(data):
            raise ValueError("a section lies behind the end of the file")
        found.append(
            _Section(data[names + name : data.index(b"\0", names + name)], kind, offset, length, link)
        )
    return found


def _symbols(data: bytes, sections: list[_Section]) -> set[bytes]:
    """Return the names of the symbols that the library exports."""
    names: set[bytes] = set()
    for section in sections:
        if section.type != _DYNAMIC_SYMBOLS:
            continue
        strings = sections[section.link].offset
        for at in range(section.offset, section.offset + section.size, 24):
            name, _, _, home = struct.unpack_from("<IBBH", data, at)
            if home:
                names.add(data[strings + name : data.index(b"\0", strings + name)])
    return names
