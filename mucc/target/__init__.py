"""Target architectures: `facts` reads `data/<name>.toml`, `devices` the figures of cards.

What a kind of kernel can do on them, and what that costs, is in its folder of `mucc/kernels`. A further
target is a data file and its name in `TARGETS`.
"""

from __future__ import annotations

import re
from functools import cache

from mucc.target.facts import Target

LONGEST_NAME = 80
"""The most characters of a name used for a suggestion."""

TARGETS = ("sm_90a", "sm_80", "sm_89", "sm_120a", "sm_100a")
"""The names of all targets."""

DEFAULT_TARGET = "sm_90a"
"""The target where none is named."""


def target_names() -> tuple[str, ...]:
    """Return the names of all targets."""
    return TARGETS


@cache
def get_target(name: str) -> Target:
    """Return the target called `name`.

    Raises `DiagnosticError` with MU4001 where there is none.
    """
    if name not in TARGETS:
        raise _unknown(name)
    return Target(name)


def meant_by(name: str) -> str | None:
    """Find the target for the name of a GPU or an architecture, or for a compute capability.

    `NVIDIA H200`, `hopper`, `sm90`, `compute_90a` and `9.0` all mean sm_90a.
    """
    word = re.sub(r"nvidia|geforce|rtx(?!pro)|tesla|quadro|[^a-z0-9.]", "", name[:LONGEST_NAME].lower())
    if found := re.fullmatch(r"(?:sm|compute|arch|cc)?(\d{1,2})\.?(\d)[af]?", word):
        word = f"{found[1]}.{found[2]}"
    for target in TARGETS:
        facts = get_target(target).facts
        cards = (part for device in facts.devices for part in (device.key, device.name.lower()))
        if word in facts.aliases or word in (re.sub(r"nvidia|[^a-z0-9]", "", card) for card in cards):
            return target
    families = re.match(r"[a-z]+\d+", word)  # h100sxm, a100pcie80gb
    return meant_by(families[0]) if families and families[0] != word else None


def target_of(major: int, minor: int) -> str | None:
    """Return the target whose code runs on GPUs of a compute capability; None if there is none."""
    return meant_by(f"{major}.{minor}")


def _unknown(name: str) -> Exception:
    from mucc.diagnostics import Diagnostic, DiagnosticError, did_you_mean

    close = meant_by(name)
    if close is None and not re.fullmatch(r"(sm_?)?\d+[af]?", name):  # capabilities only look alike
        close = did_you_mean(name, TARGETS)
    return DiagnosticError(
        Diagnostic(
            "MU4001",
            f"unknown target '{name}'",
            notes=(f"targets are {', '.join(TARGETS)}",),
            helps=(f"did you mean '{close}'?",) if close else (),
        )
    )
