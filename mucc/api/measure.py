"""Measuring: schedules, the times of calls, and results against a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mucc.api import names_from

if TYPE_CHECKING:
    from mucc.database.records import Record, Run
    from mucc.measure.timing import interleaved_us
    from mucc.measure.tune.building import build
    from mucc.measure.tune.choosing import plan
    from mucc.measure.tune.folder import results
    from mucc.measure.tune.measure_folder import measure
    from mucc.measure.tune.plans import Plan, Program
    from mucc.torch.importer.tolerance import UNKNOWN, Compared, compared, dtype_name, form, in_float64, rms

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
        "mucc.database.records": ("Record", "Run"),
        "mucc.measure.timing": ("interleaved_us",),
        "mucc.torch.importer.tolerance": (
            "UNKNOWN",
            "Compared",
            "compared",
            "dtype_name",
            "form",
            "in_float64",
            "rms",
        ),
        "mucc.measure.tune.building": ("build",),
        "mucc.measure.tune.choosing": ("plan",),
        "mucc.measure.tune.folder": ("results",),
        "mucc.measure.tune.measure_folder": ("measure",),
        "mucc.measure.tune.plans": ("Plan", "Program"),
    },
)
