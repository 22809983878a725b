"""What tests of torch.compile share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing that was compiled before is known: not to dynamo, not in Inductor's cache, and not counted."""
    torch: Any = pytest.importorskip("torch", reason="needs torch")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def own_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Times are stored in a tuning database that is empty at first."""
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "tuning.db"))
