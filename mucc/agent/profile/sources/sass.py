"""The machine code of a library, as cuobjdump prints it."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import SubprocessError

from mucc.agent.profile.sources import Reading, Request
from mucc.api.build import Function, cubins_of, disassembled, find_cuobjdump

JOBS = 4
"""Disassemblers at a time; one takes half a second for a kernel of CUTLASS."""

INSTALL = "pip install nvidia-cuda-cuobjdump, or a CUDA toolkit"


class Sass:
    """Instructions of kernels."""

    name = "sass"

    def read(self, asked: Request) -> Reading:
        if asked.library is None:
            return Reading()
        if (tool := find_cuobjdump()) is None:
            return Reading(missing=[f"sass: cuobjdump was not found ({INSTALL})"])
        try:
            return Reading(functions=_functions(Path(asked.library), tool, asked.time_limit))
        except (OSError, ValueError, SubprocessError) as error:
            said = str(error).splitlines()
            return Reading(missing=[f"sass: {said[0] if said else type(error).__name__}"])


def _functions(library: Path, tool: str, seconds: float) -> list[Function]:
    """Return the functions of a library, several cubins at a time."""
    if (cubins := cubins_of(library)) is None:
        return disassembled(library, tool, seconds)
    with tempfile.TemporaryDirectory(prefix="mucc-") as folder, ThreadPoolExecutor(JOBS) as threads:
        paths = [Path(folder, f"{i}.cubin") for i in range(len(cubins))]
        for path, cubin in zip(paths, cubins, strict=True):
            path.write_bytes(cubin)
        waiting = [threads.submit(disassembled, path, tool, seconds) for path in paths]
        return [function for listing in waiting for function in listing.result()]
