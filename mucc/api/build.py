"""Building libraries, side by side; the toolchain; the machine code in libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.build.artefact import Artefact, Request, build
    from mucc.build.jobs import AWAKE, Job, Result, run
    from mucc.build.pool import Cancelled, Pool
    from mucc.build.toolchain.discover import Toolchain, find_toolchain
    from mucc.build.toolchain.machine_code import (
        Function,
        Resources,
        cubins_of,
        disassembled,
        find_cuobjdump,
        resources,
    )

__all__ = [
    "AWAKE",
    "Artefact",
    "Cancelled",
    "Function",
    "Job",
    "Pool",
    "Request",
    "Resources",
    "Result",
    "Toolchain",
    "build",
    "cubins_of",
    "disassembled",
    "find_cuobjdump",
    "find_toolchain",
    "resources",
    "run",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.build.artefact": ("Artefact", "Request", "build"),
        "mucc.build.jobs": ("AWAKE", "Job", "Result", "run"),
        "mucc.build.pool": ("Cancelled", "Pool"),
        "mucc.build.toolchain.discover": ("Toolchain", "find_toolchain"),
        "mucc.build.toolchain.machine_code": (
            "Function",
            "Resources",
            "cubins_of",
            "disassembled",
            "find_cuobjdump",
            "resources",
        ),
    },
)
