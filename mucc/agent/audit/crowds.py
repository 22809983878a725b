"""Other processes on a GPU, which make times of it no evidence against a solution."""

from __future__ import annotations

from collections.abc import Collection

from mucc.agent.audit.noise import MOST_MS, delayed

SHOWN = 4
"""How many processes are named."""


def crowd(others: Collection[int], idle_ms: float, often_ms: float, least_ms: float) -> str:
    """Return what shows that other processes used the GPU, "" where nothing does.

    `others` are processes that the driver names, `idle_ms` is what a call of nothing took before the solution
    was loaded, `often_ms` and `least_ms` are what clearing the caches took often and at the least when the
    solution's process had ended.
    """
    if others:
        said = "processes use" if len(others) > 1 else "process uses"
        return f"{len(others)} other {said} the GPU ({', '.join(map(str, sorted(others)[:SHOWN]))})"
    if idle_ms > MOST_MS:
        return f"other work delayed the GPU: a call that does nothing took {idle_ms:.3g} ms"
    if delayed(often_ms, least_ms):
        return (
            "other work delayed the GPU: when the solution's process had ended, clearing its caches took"
            f" {least_ms:.3g} to {often_ms:.3g} ms"
        )
    return ""
