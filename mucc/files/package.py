"""The folders of the installed package."""

from __future__ import annotations

import os

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
