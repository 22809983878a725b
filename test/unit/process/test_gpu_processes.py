"""Processes on a GPU, by a stand-in for NVML."""

from __future__ import annotations

from ctypes import c_uint
from typing import Any

import pytest

from mucc.process import gpu_processes


class Nvml:
    """Two processes on the GPU "0:1", as NVML tells; or `status` instead."""

    def __init__(self, status: int = 0):
        self.status = status

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus: bytes, device: Any) -> int:
        return 0 if bus == b"0:1" else 6

    def nvmlDeviceGetComputeRunningProcesses_v3(self, device: Any, count: Any, found: Any) -> int:
        held = count._obj
        assert isinstance(held, c_uint) and held.value == len(found)
        for entry, pid in zip(found, (11, 12), strict=False):
            entry.pid = pid
        held.value = 2
        return self.status


def test_processes_are_those_of_one_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_processes, "_nvml", Nvml)
    assert gpu_processes.compute_processes("0:1") == {11, 12}
    assert gpu_processes.compute_processes("0:2") == frozenset()


@pytest.mark.parametrize("library", [None, Nvml(3)])
def test_a_driver_that_does_not_tell_names_nobody(library: Nvml | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gpu_processes, "_nvml", lambda: library)
    assert gpu_processes.compute_processes("0:1") == frozenset()
