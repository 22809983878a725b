"""The interface of a process or GPU that launches a library, and its verdict on the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Trial(NamedTuple):
    """A library that was checked and timed; `reason` where it is not good."""

    status: str
    reason: str = ""
    error: float | None = None
    times: Sequence[float] = ()
    broken: bool = False


class Bench(Protocol):
    """The interface of what launches kernels; `mucc.measure.tune.gpu.Gpu` implements it for GPUs."""

    def hello(self) -> Mapping[str, str]:
        """Return the card's name and its architecture."""
        ...

    def prepare(self, text: str, kernel: str, target: str, dims: Mapping[str, int], seed: int) -> None:
        """Make inputs and a reference result for the launches that follow."""
        ...

    def try_one(self, path: str, budget_us: float) -> Trial:
        """Check a library's result and time it alone, for about so long."""
        ...

    def race(self, paths: Sequence[str], budget_us: float, heat_us: float) -> list[list[float]]:
        """Time libraries that were tried already in turns, each for about so long, under load before that."""
        ...
