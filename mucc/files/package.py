"""The folders of the installed package."""

from __future__ import annotations

import os
import re

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder `mucc`."""

SUPPORT = os.path.join(PACKAGE, "support")
"""The folder of mucc's C++: `include`, `src`, and `shim`, with which g++ compiles CUTLASS."""

_OF_KINDS = (os.path.join(e.path, "include") for e in os.scandir(os.path.join(PACKAGE, "kernels")))

INCLUDES = (os.path.join(SUPPORT, "include"), *sorted(path for path in _OF_KINDS if os.path.isdir(path)))
"""The folders with mucc's own headers: those that kernels share, and those of kinds of kernels."""


def header_path(name: str) -> str:
    """Return the path of one of mucc's own headers. Raises FileNotFoundError where there is none."""
    paths = (os.path.join(folder, "mucc", name) for folder in INCLUDES)
    for path in paths:
        if os.path.exists(path):
            return path
    raise FileNotFoundError(name)


HEADERS = (SUPPORT, *INCLUDES[1:])
"""The folders with the C++ that artefacts are built from."""

_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<mucc/([^>]+)>", re.MULTILINE)


def included(text: str) -> tuple[tuple[str, str], ...]:
    """Return names and texts of the own headers that C++ includes, itself or through them, by name.

    Those under conditions of the preprocessor count. Raises FileNotFoundError where there is none.
    """
    found: dict[str, str] = {}
    names = _INCLUDED.findall(text)
    while names:
        name = names.pop()
        if name not in found:
            with open(header_path(name), encoding="utf-8") as file:
                found[name] = file.read()
            names += _INCLUDED.findall(found[name])
    return tuple(sorted(found.items()))
