"""Line information: map machine code back to the lines of a program.

Emitters mark lines of C++ with the line of the program that they come from; `directed` replaces the marks by
`#line` directives. Without `marking`, nothing is marked, and the C++ is the same but for the directives.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.ir import Operation

from mucc.dialects.locations import place_of

_BEGIN, _END = "//@begin ", "//@end"
_MARK = re.compile(r" //@(\d+)$")
_marking: ContextVar[bool] = ContextVar("marking", default=False)


@contextmanager
def marking(wanted: bool) -> Generator[None]:
    """Have emitters mark lines, or not."""
    token = _marking.set(wanted)
    try:
        yield
    finally:
        _marking.reset(token)


def mark(op: Operation) -> str:
    """Return what marks a line of C++ as that of an operation; empty where nothing is marked."""
    place = place_of(op.location) if _marking.get() else None
    return f" //@{place.line.data}" if place is not None else ""


def marked(text: str, line: int | None) -> str:
    """Mark lines of C++ as those of a line of the program, but for those that have marks of their own."""
    return f"{_BEGIN}{line}\n{text}\n{_END}" if _marking.get() and line is not None else text


def directed(text: str, path: str, own: str) -> str:
    """Replace marks by directives: `path` is the program, and `own` the name of the file with this C++."""
    name = path.replace("\\", "\\\\").replace('"', '\\"')
    lines: list[str] = []
    around: str | None = None
    for line in text.split("\n"):
        if line.startswith(_BEGIN):
            around = line.removeprefix(_BEGIN)
        elif line == _END:
            around = None
            lines.append(f'#line {len(lines) + 2} "{own}"')
        elif around is None:
            lines.append(line)
        else:
            mark = _MARK.search(line)
            if line.strip():
                lines.append(f'#line {mark[1] if mark else around} "{name}"')
            lines.append(_MARK.sub("", line))
    return "\n".join(lines)
