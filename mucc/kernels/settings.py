"""The settings that a program's schedules pin for its kernels."""

from __future__ import annotations

from xdsl.ir import Attribute

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.schedule import ScheduleOp


def pinned(schedules: list[ScheduleOp], program: c.ProgramOp, stage: str) -> dict[str, Attribute]:
    """Return the pinned settings of a stage; a schedule of the stage overrides one of the kernel."""
    settings: dict[str, Attribute] = {}
    matching = [
        s
        for s in schedules
        if s.kernel.data == program.sym_name.data
        and s.target.data == program.target.data
        and (s.stage is None or s.stage.data == stage)
    ]
    for schedule in sorted(matching, key=lambda s: s.stage is not None):
        settings |= schedule.settings.data
    return settings
