"""Why warps do not issue: ncu's stall reasons as shares. Not a tool by itself."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = (
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "gmma",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)

REASONS: Mapping[str, str] = {
    name: f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in _NAMES
}
"""The counters by reason: warps of a scheduler that wait for it, for each instruction that is issued. They
add up to all warps (Nsight Compute, section WarpStateStats)."""


def shares(counters: Mapping[str, float]) -> dict[str, float]:
    """Return the part of warps' time that each reason takes, 0 to 1; empty where it was not counted."""
    found = {name: counters[metric] for name, metric in REASONS.items() if metric in counters}
    whole = sum(found.values())
    return {name: value / whole for name, value in found.items()} if whole > 0 else {}
