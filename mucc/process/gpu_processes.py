"""List the processes that use a GPU, by NVML."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache

MOST = 256
"""Processes that are told of one GPU at the most."""


class ProcessInfo(ctypes.Structure):
    """`nvmlProcessInfo_t` of NVML."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


def bus_of(device: int) -> str:
    """Return the PCI bus identifier of a GPU by its CUDA ordinal, "" where the driver does not tell."""
    text = ctypes.create_string_buffer(32)
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    handle = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(handle), device):
        return ""
    return "" if cuda.cuDeviceGetPCIBusId(text, len(text), handle) else text.value.decode(errors="replace")


def compute_processes(bus: str) -> frozenset[int]:
    """Return the processes that have a CUDA context on the GPU with this PCI bus identifier, by their
    numbers; none where NVML is missing or does not tell. In a container it may tell of none, or of fewer."""
    library = _nvml()
    device = ctypes.c_void_p()
    if library is None or library.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(device)):
        return frozenset()
    count, found = ctypes.c_uint(MOST), (ProcessInfo * MOST)()
    if library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), found):
        return frozenset()
    return frozenset(int(one.pid) for one in found[: min(count.value, MOST)])


@cache
def _nvml() -> ctypes.CDLL | None:
    """Return NVML, ready for use; None where it or a function of it is missing."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        library.nvmlDeviceGetComputeRunningProcesses_v3  # noqa: B018  # drivers before 510 lack it
        if not library.nvmlInit_v2():
            return library
    return None
