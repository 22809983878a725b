"""The tools of the second stage. A tool is one file here, with a class, and a line in `TOOLS`.

A tool turns what sources have read into findings: severity, root cause, and advice in `.mcu` levers, the best
first. It never raises where something was not read: what it needs and lacks it passes over.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Protocol

from mucc.agent.core.analysis import Advice, Limit, Severity
from mucc.agent.profile.evidence import Evidence


class Tool(Protocol):
    """A tool that detects one cause of lost time."""

    name: str
    looks_at: str
    """A short description for docs and help."""
    limits: frozenset[Limit]
    """The classes of problems that it is run for."""
    sources: tuple[str, ...]
    """The sources that it can use; any one of them may be missing."""
    metrics: tuple[str, ...]
    """The counters of ncu that it reads."""

    def check(self, seen: Evidence) -> Iterator[Advice]:
        """Yield the findings."""
        ...


TOOLS: tuple[str, ...] = (
    "tensor_cores:TensorCores",
    "serialised:Serialised",
    "pipeline:Pipeline",
    "tile_fit:TileFit",
    "tail_waves:TailWaves",
    "split:Split",
    "code_size:CodeSize",
    "epilogue:Epilogue",
    "dram:Dram",
    "fusion:Fusion",
    "l2:L2",
    "coalescing:Coalescing",
    "occupancy:Occupancy",
    "registers:Registers",
    "warp_stalls:WarpStalls",
    "barriers:Barriers",
    "launches:Launches",
)
"""Every tool, as module and class."""

EVERY = frozenset(Limit)
"""All classes of problems."""

_RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def tools() -> Iterator[Tool]:
    """Instances of all tools."""
    for entry in TOOLS:
        module, _, name = entry.partition(":")
        yield getattr(import_module(f"{__name__}.{module}"), name)()


def tools_for(limit: Limit) -> list[Tool]:
    """Return the tools of one class of problems."""
    return [tool for tool in tools() if limit in tool.limits]


def advice(seen: Evidence) -> list[Advice]:
    """Return the findings of the tools of the problem's class: by severity, then by share of the time."""
    shares = {stage.name: stage.share for stage in seen.stages}
    found = [finding for tool in tools_for(seen.limit) for finding in tool.check(seen)]
    return sorted(found, key=lambda a: (_RANK[a.severity], -shares.get(a.stage, 1.0)))
