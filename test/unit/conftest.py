"""Settings of property tests: equal examples in every run, and no failure for lack of speed.

`make test` draws a third of the examples (`test/lib/budget.py`).

`pytest --hypothesis-profile=random` draws other examples.
"""

from pathlib import Path

import pytest
from budget import examples
from hypothesis import HealthCheck, settings

settings.register_profile(
    "random", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.register_profile("mucc", settings.get_profile("random"), derandomize=True)
settings.load_profile("mucc")


@pytest.fixture
def own_gpu_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks on GPUs that no other test takes: one that asks for all GPUs would hold up this one's threads."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
