"""Decode the bytes of a program to a source text."""

from __future__ import annotations

from mucc.diagnostics.core import Diagnostic, DiagnosticError, Source

PROGRAM = ".mcu"
"""The suffix of the names of programs."""

STDIN = "-"
"""The file name that stands for stdin."""


def decode(data: bytes, path: str) -> Source:
    """Decode a file's bytes. Raises MU5020 for bytes that are not UTF-8, MU5021 for an empty file.

    What is not UTF-8 in the path is replaced in the source's name, which becomes part of C++ and JSON, and so
    are line ends, which would end a comment.
    """
    name = "<stdin>" if path == STDIN else _shown(path)
    try:
        if _is_utf16(data):
            message, help = f"'{name}' is UTF-16 text", f"save it as UTF-8: `iconv -f utf-16 -t utf-8 {name}`"
            raise DiagnosticError(Diagnostic("MU5020", message, helps=(help,)))
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        message = f"'{name}' is not UTF-8 text: byte 0x{byte:02x} at offset {error.start} (line {line})"
        raise DiagnosticError(Diagnostic("MU5020", message, helps=("save the file as UTF-8",))) from None
    if not text.strip():
        python = path.endswith(".py")
        helps = () if python else ("`mucc docs --card` shows how to write a program",)
        raise DiagnosticError(Diagnostic("MU5021", f"'{name}' is empty", helps=helps))
    return Source(name, text)


def _shown(path: str) -> str:
    """Return a path as it is shown: in one line of valid UTF-8."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _is_utf16(data: bytes) -> bool:
    """Whether bytes begin with the mark of UTF-16, or with ASCII characters of two bytes each."""
    start = data[:32]
    is_wide = any(len(start) >= 8 and not any(start[n::2]) and all(start[1 - n :: 2]) for n in (0, 1))
    return is_wide or data.startswith((b"\xff\xfe", b"\xfe\xff"))
