"""Measuring: schedules, the times of calls, and results against a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.measured.records import Record, Run
    from mucc.runtime.timing import interleaved_us
    from mucc.torch.importer.tolerance import UNKNOWN, Compared, compared, dtype_name, form, in_float64, rms
    from mucc.tune.building import build
    from mucc.tune.choosing import plan
    from mucc.tune.folder import results
    from mucc.tune.measuring import measure
    from mucc.tune.plans import Plan, Program

__all__ = [
    "UNKNOWN",
    "Compared",
    "Plan",
    "Program",
    "Record",
    "Run",
    "build",
    "compared",
    "dtype_name",
    "form",
    "in_float64",
    "interleaved_us",
    "measure",
    "plan",
    "results",
    "rms",
]

__getattr__ = names_from(
    __name__,
    {
        "mucc.measured.records": ("Record", "Run"),
        "mucc.runtime.timing": ("interleaved_us",),
        "mucc.torch.importer.tolerance": (
            "UNKNOWN",
            "Compared",
            "compared",
            "dtype_name",
            "form",
            "in_float64",
            "rms",
        ),
        "mucc.tune.building": ("build",),
        "mucc.tune.choosing": ("plan",),
        "mucc.tune.folder": ("results",),
        "mucc.tune.measuring": ("measure",),
        "mucc.tune.plans": ("Plan", "Program"),
    },
)
