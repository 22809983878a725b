"""What mucc knows of the GPUs that it compiles for, and C++ for them.

* `config`: how a contraction and its schedule are described to a target, without IR
* `base`: what every target offers; the facts in `data/<name>.toml`
* `rules`: what the rules of all targets have in common
* `sm90`, `sm90_memory`, `sm90_rules`, `sm90_schedule`: NVIDIA Hopper
* `sm80`: NVIDIA GPUs without wgmma
* `multistage`, `multistage_rules`: kernels of CUTLASS 2.x mainloops; `skinny`: kernels for few rows
* `sm100`, `sm100_memory`, `sm100_rules`, `sm100_schedule`: NVIDIA Blackwell for data centres
* `cuda`: emission of CUDA C++

A further target is a module with a `Target`, a data file, and a line in `TARGETS`. Importing this
package loads none of them.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.target.base import Target

LONGEST_NAME = 80
"""Characters of a name that are looked at to guess what is meant."""

TARGETS: dict[str, tuple[str, str]] = {
    "sm_90a": ("mucc.target.sm90", "Sm90"),
    "sm_80": ("mucc.target.sm80", "Sm80"),
    "sm_89": ("mucc.target.sm80", "Sm80"),
    "sm_120a": ("mucc.target.sm80", "Sm80"),
    "sm_100a": ("mucc.target.sm100", "Sm100"),
}
"""Every target's name, with the module and class that describe it."""


def target_names() -> tuple[str, ...]:
    """The names of all targets."""
    return tuple(TARGETS)


@cache
def get_target(name: str) -> Target:
    """The target called `name`.

    Raises `DiagnosticError` with MU4001 where there is none.
    """
    if name not in TARGETS:
        raise _unknown(name)
    module, class_name = TARGETS[name]
    return getattr(import_module(module), class_name)(name)


def meant_by(name: str) -> str | None:
    """The target that is meant by the name of a GPU, of an architecture, or by a compute capability.

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
