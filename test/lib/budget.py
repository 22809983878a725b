"""How many examples and cases a run of tests takes: all by itself, a share in `make test`."""

from __future__ import annotations

import os
from typing import Any

import pytest

SHARE = 3
"""`make test` draws one of so many examples."""

FEWEST = 10
"""The most examples of which `make test` leaves none out, and the fewest that it draws of others."""


def is_share() -> bool:
    """Whether a run takes a share, which `MUCC_TEST_SHARE=1` asks for."""
    return os.environ.get("MUCC_TEST_SHARE") == "1"


def examples(count: int) -> int:
    """Return how many of `count` examples a property test draws."""
    return max(count // SHARE, min(count, FEWEST)) if is_share() else count


def alternately_long(cases: list[Any]) -> list[Any]:
    """Leave every second of many similar cases to a run of the long tests."""
    return [pytest.param(case, marks=pytest.mark.long) if i % 2 else case for i, case in enumerate(cases)]
