"""Modules that several threads import at once."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc import from_torch  # noqa: E402
from mucc.diagnostics.core import DiagnosticError  # noqa: E402


def imported(module: Any) -> str:
    try:
        return from_torch(module, (torch.zeros(4, 8),)).text
    except DiagnosticError as error:
        return str(error)


def test_threads_import_as_one_does() -> None:
    modules = [
        torch.nn.Linear(8, 8),
        torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4, momentum=None)),
        torch.nn.GELU(),
    ]
    expected = [imported(module) for module in modules]
    patched, filters = torch.nn.BatchNorm1d.forward, [*sys.modules["warnings"].filters]
    found, barrier, interval = ["" for _ in modules], threading.Barrier(len(modules)), sys.getswitchinterval()

    def run(number: int) -> None:
        barrier.wait()
        found[number] = imported(modules[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(modules))]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert found == expected
    assert torch.nn.BatchNorm1d.forward is patched
    assert [*sys.modules["warnings"].filters] == filters
