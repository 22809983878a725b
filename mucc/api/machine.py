"""This machine: its GPU, cores and memory, the report of `mucc doctor`, and exclusive use of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.build.toolchain.doctor import Finding, examine, gpu, gpu_memory, installed
    from mucc.measure.run import no_gpu
    from mucc.process.gpu_lock import exclusive_gpu, shared_gpu
    from mucc.process.gpu_memory import Room, out_of_memory, wanted_by
    from mucc.process.gpu_processes import bus_of, compute_processes
    from mucc.process.machine import cores
    from mucc.target.devices import Card, get_card

__all__ = [
    "Card",
    "Finding",
    "Room",
    "bus_of",
    "compute_processes",
    "cores",
    "examine",
    "exclusive_gpu",
    "get_card",
    "gpu",
    "gpu_memory",
    "installed",
    "no_gpu",
    "out_of_memory",
    "shared_gpu",
    "wanted_by",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.build.toolchain.doctor": ("Finding", "examine", "gpu", "gpu_memory", "installed"),
        "mucc.process.gpu_lock": ("exclusive_gpu", "shared_gpu"),
        "mucc.process.gpu_memory": ("Room", "out_of_memory", "wanted_by"),
        "mucc.process.gpu_processes": ("bus_of", "compute_processes"),
        "mucc.process.machine": ("cores",),
        "mucc.measure.run": ("no_gpu",),
        "mucc.target.devices": ("Card", "get_card"),
    },
)
