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

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mucc.target.base import Target

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


def _unknown(name: str) -> Exception:
    from mucc.diagnostics import Diagnostic, DiagnosticError, did_you_mean

    close = did_you_mean(name, TARGETS)
    if close is None and name.removesuffix("a") in (digits := {t.removesuffix("a"): t for t in TARGETS}):
        close = digits[name.removesuffix("a")]
    return DiagnosticError(
        Diagnostic(
            "MU4001",
            f"unknown target '{name}'",
            notes=(f"targets are {', '.join(TARGETS)}",),
            helps=(f"did you mean '{close}'?",) if close else (),
        )
    )
