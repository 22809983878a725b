"""Read the resources of each kernel from the cubins, without a tool of CUDA."""

from __future__ import annotations

from pathlib import Path

from mucc.agent.profile.sources import Reading, Request
from mucc.api.build import cubins_of, resources


class Ptxas:
    """Registers, stack frames and shared memory of kernels."""

    name = "ptxas"

    def read(self, asked: Request) -> Reading:
        if asked.library is None:
            return Reading()
        try:
            found = cubins_of(Path(asked.library))
            if found is None:
                return Reading(
                    missing=[
                        "ptxas: the library was built by nvcc as one piece, without --plain-nvcc"
                        " its kernels' resources could be read"
                    ]
                )
            return Reading(resources=[r for cubin in found for r in resources(cubin)])
        except (OSError, ValueError) as error:
            return Reading(missing=[f"ptxas: {error}"])
