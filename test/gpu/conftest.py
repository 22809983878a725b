"""Tests that run kernels. They are skipped, with the reason, where there is no GPU that mucc compiles for.

Audits see which processes use the GPU, and judge no times where others do: they are marked `alone`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mucc
from mucc.measure.run import gpu_problem

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
TARGET = "sm_90a"
SHARED = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1"
"""Whether several workers run tests: each keeps a CUDA context until it ends."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in item.path.parents]
    problem = gpu_problem(TARGET) if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if problem:
            item.add_marker(pytest.mark.skip(reason=problem))
        elif SHARED and item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.skip(reason="other workers use the GPU: pytest test/gpu -m alone"))


@pytest.fixture(scope="session")
def library() -> Callable[[Path], Any]:
    """The library of a program: `NAME.so` in the folder MUCC_TEST_SO_DIR, else compiled now or cached."""

    @cache
    def load(path: Path) -> Any:
        if folder := os.environ.get("MUCC_TEST_SO_DIR"):
            return mucc.load(Path(folder) / f"{path.stem}.so")
        return mucc.compile(path.read_text(encoding="utf-8"), name=path.name)

    return load


@pytest.fixture(scope="session")
def example(library: Callable[[Path], Any]) -> Callable[[str], Any]:
    """The library of an example by its name."""
    return lambda name: library(EXAMPLES / f"{name}.mcu")
