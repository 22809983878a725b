"""Measure where the time of a task goes: the agent itself, builds, the GPU, audits, models, waiting."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping

AGENT, BUILD, GPU, AUDIT, MODEL, WAIT = "agent", "build", "gpu", "audit", "model", "wait"

_STAGES = {"check": BUILD, "build": BUILD, "run": GPU, "audit": AUDIT}


class Clock:
    """The seconds of one task by kind; their sum is the time that its thread spent on it.

    Time outside `waiting` is the agent's own. For use by one thread.
    """

    def __init__(self, before: Mapping[str, float] | None = None):
        self._spent = dict(before or {})
        self._mark = time.monotonic()

    @contextlib.contextmanager
    def waiting(self, kind: str) -> Generator[dict[str, float]]:
        """Count the time within as time of `kind`. The caller puts the seconds of evaluation stages into the
        dict: the time is divided among these stages in proportion, and the rest is of `kind`."""
        self._pass(AGENT)
        stages: dict[str, float] = {}
        try:
            yield stages
        finally:
            now = time.monotonic()
            self._share(kind, now - self._mark, stages)
            self._mark = now

    def _share(self, kind: str, elapsed: float, stages: Mapping[str, float]) -> None:
        told = sum(stages.values())
        part = min(1.0, elapsed / told) if told > 0 else 0.0
        for stage, seconds in stages.items():
            self._add(_STAGES.get(stage, kind), seconds * part)
        self._add(kind, elapsed - told * part)

    def _pass(self, kind: str) -> None:
        now = time.monotonic()
        self._add(kind, now - self._mark)
        self._mark = now

    def _add(self, kind: str, seconds: float) -> None:
        self._spent[kind] = self._spent.get(kind, 0.0) + max(seconds, 0.0)

    def seconds(self) -> dict[str, float]:
        """Return the seconds so far, by kind."""
        self._pass(AGENT)
        return {kind: round(seconds, 4) for kind, seconds in self._spent.items()}

    def total(self) -> float:
        """Return the sum of all seconds so far."""
        self._pass(AGENT)
        return sum(self._spent.values())
