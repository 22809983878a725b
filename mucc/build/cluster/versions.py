"""Versions that must be equal on machines whose results are used together, and their differences."""

from __future__ import annotations

import platform
from functools import cache
from typing import NamedTuple

from mucc.diagnostics.core import DiagnosticError
from mucc.files.digest import digest, tree_contents
from mucc.files.package import PACKAGE
from mucc.version import __version__

NAMES = {
    "mucc": "mucc",
    "sources": "mucc's own code",
    "machine": "the processor",
    "nvcc": "nvcc",
    "cutlass": "CUTLASS",
    "host": "the host compiler",
}


class Versions(NamedTuple):
    """The versions on a machine. Those of compilers are empty where they are missing or not asked for."""

    mucc: str
    sources: str
    machine: str
    nvcc: str = ""
    cutlass: str = ""
    host: str = ""

    def differences(self, here: Versions) -> list[str]:
        """List what differs from the machine that gives the work, as sentences."""
        return [
            f"{NAMES[name]} is {there or 'missing'} there and {mine or 'missing'} here"
            for name, there, mine in zip(self._fields, self, here, strict=True)
            if there != mine
        ]


@cache
def without_compilers() -> Versions:
    """Return the versions of this machine that measuring depends on."""
    return Versions(__version__, digest(tree_contents(PACKAGE))[:12], platform.machine())


@cache
def with_compilers(nvcc: str | None = None) -> Versions:
    """Return the versions of this machine that building depends on."""
    from mucc.build.toolchain.discover import present_versions

    try:
        found = present_versions(nvcc)
    except DiagnosticError:
        found = (None, None, None)
    return without_compilers()._replace(
        nvcc=found[0] or "", cutlass=found[1] or "", host=(found[2] or "").partition("\n")[0]
    )
