"""Odd PyTorch modules through the importer and the backend: all agree with PyTorch, or are refused.

A run of all tests takes every second module through the importer, and every fourth, of the others, through
the backend; all but a fourth and a sixth of these are long. `MUCC_ALL_MODULES=1`, as `make modules` sets it,
takes all through both.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch")

import modulelib
from torch_modules import ODD

pytestmark = pytest.mark.filterwarnings("ignore")


def share(first: int, step: int, quick: int) -> list[Any]:
    """The names of modules that a run takes; all but each `quick`-th are left to a run of the long tests."""
    if os.environ.get("MUCC_ALL_MODULES"):
        return [*ODD]
    taken = [*ODD][first::step]
    return [pytest.param(name, marks=pytest.mark.long) if i % quick else name for i, name in enumerate(taken)]


@pytest.mark.parametrize("name", share(0, 2, 4))
def test_imported(name: str):
    assert modulelib.imported(ODD[name]) == []


@pytest.mark.parametrize("name", share(1, 4, 6))
def test_compiled(name: str):
    assert modulelib.compiled(ODD[name]) == []


def test_there_are_enough():
    assert len(ODD) >= 500
