"""Reserve bytes of a library for device code and the manifest when it is linked, and fill them afterwards."""

from __future__ import annotations

from collections.abc import Mapping

MANIFEST = "mucc_manifest_text"
"""The symbol of the manifest."""


def reservation(room: Mapping[str, int]) -> str:
    """Emit assembly that defines each symbol, with so many bytes reserved for what is filled in later.

    Manifest and images are in ELF sections of their own, so that tools can read them without loading the
    library.
    """
    lines: list[str] = []
    for name, size in room.items():
        section = ".mucc_manifest" if name == MANIFEST else ".mucc_cubin"
        tag = _tag(name)
        lines += [f'.section {section},"a",@progbits', ".balign 64", f".globl {name}", f".hidden {name}"]
        lines += [f"{name}:", f'.ascii "{tag.decode()}"', f".zero {size - len(tag)}"]
    return "\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""])


def _tag(name: str) -> bytes:
    """Return the unique bytes at the beginning of a reservation."""
    return f"<mucc: here goes {name}>".encode()


def filled(library: bytes, room: Mapping[str, int], contents: Mapping[str, bytes]) -> bytes:
    """Return a shared library with contents written into the bytes reserved for them, by symbol.

    Raises ValueError for a missing reservation.
    """
    data = bytearray(library)
    for name, content in contents.items():
        start = library.index(_tag(name))
        data[start : start + room[name]] = content.ljust(room[name], b"\0")
    return bytes(data)
