"""Packages that tests need and that an installation may lack."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(package: str, reason: str) -> None:
    """Skip a module of tests where a package is missing.

    Unlike `importorskip` it imports nothing, which every process that collects tests would have to.
    """
    if find_spec(package) is None:
        pytest.skip(reason, allow_module_level=True)
