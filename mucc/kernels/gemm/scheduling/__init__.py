"""Schedules of contractions: legality, shared memory, cost and proposals, by family and target.

* `config`: a contraction and its schedule in plain numbers, without IR; `operand`: its operands
* `base`: what every target offers; `rules`: what the rules of all targets have in common
* `sm90`, `sm90_memory`, `sm90_rules`, `sm90_schedule`, `copied`: NVIDIA Hopper
* `sm80`: NVIDIA GPUs without wgmma
* `multistage`, `multistage_rules`: kernels of CUTLASS 2.x mainloops; `skinny`: kernels for few rows
* `sm100`, `sm100_memory`, `sm100_rules`, `sm100_schedule`: NVIDIA Blackwell for data centres

Importing this package loads none of them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from mucc.target import get_target

if TYPE_CHECKING:
    from mucc.kernels.gemm.scheduling.base import GemmTarget

_CLASSES: dict[str, tuple[str, str]] = {
    "sm_90a": ("mucc.kernels.gemm.scheduling.sm90", "Sm90"),
    "sm_80": ("mucc.kernels.gemm.scheduling.sm80", "Sm80"),
    "sm_89": ("mucc.kernels.gemm.scheduling.sm80", "Sm80"),
    "sm_120a": ("mucc.kernels.gemm.scheduling.sm80", "Sm80"),
    "sm_100a": ("mucc.kernels.gemm.scheduling.sm100", "Sm100"),
}
"""By target, the module and class that know its contraction kernels."""


@cache
def gemm_target(name: str) -> GemmTarget:
    """Return the target called `name`, with its contraction kernels.

    Raises `DiagnosticError` with MU4001 where there is none.
    """
    module, class_name = _CLASSES[get_target(name).name]
    return getattr(import_module(module), class_name)(name)
