"""What a run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.kernelbench.children import Limits


@dataclass(frozen=True)
class Options:
    """The options that stages share. Times in seconds, memory in MiB.

    `folder` holds everything that a run makes. `compute` is the format of f32 products, None: as PyTorch's
    defaults have it. `check` compares what was imported with PyTorch on the CPU, `audit` judges candidates.
    """

    folder: Path
    device: str = "cuda"
    card: str = "h200"
    target: str = "sm_90a"
    compute: str | None = None
    check: bool = True
    audit: bool = True
    jobs: int = 1
    time_limit: float = 300.0
    memory_limit: int = 8192
    runs: int = 30

    @property
    def memory(self) -> int:
        """The memory limit in bytes."""
        return self.memory_limit << 20

    def limits(self, *, address_space: bool) -> Limits:
        """The limits of a child."""
        return Limits(self.time_limit, self.memory, address_space)
