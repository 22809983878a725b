"""The settings of evaluations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of time and memory, and numbers of calls.

    Seconds: `build_seconds` for each step of a build, `open_seconds` for the problem file, `run_seconds` for
    each of checking and timing a candidate, `audit_seconds` for each process of an audit, `compare_seconds`
    for the baselines. `memory` is in MiB of main memory beside torch, `output` in MiB of the largest file
    that a candidate may write, what it prints included. A candidate is timed for about `time_ms`, in at
    least `fewest` and at most `runs` calls; baselines for about `compare_ms` together. At most `together`
    candidates use the GPU's memory at a time, and as many audits, and baselines.
    """

    build_seconds: float = 600.0
    open_seconds: float = 60.0
    run_seconds: float = 30.0
    audit_seconds: float = 120.0
    compare_seconds: float = 600.0
    memory: int = 8192
    output: int = 32
    runs: int = 25
    fewest: int = 5
    time_ms: float = 150.0
    compare_ms: float = 600.0
    compare_runs: int = 30
    together: int = 8

    @property
    def memory_bytes(self) -> int:
        """Bytes of main memory beside torch."""
        return self.memory << 20
