"""The settings that a program's schedules pin for its kernels."""

from __future__ import annotations

from xdsl.ir import Attribute

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.settings import REPRODUCIBLE
from mucc.kernels.registry import kind_of


def pinned(schedules: list[ScheduleOp], program: c.ProgramOp, stage: str) -> dict[str, Attribute]:
    """Return the pinned settings of a stage; a schedule of the stage overrides one of the kernel.

    What a schedule of the kernel sets is for the kinds that share it (`Kind.needs_own_schedule`).
    """
    settings: dict[str, Attribute] = {}
    matching = [
        s
        for s in schedules
        if s.kernel.data == program.sym_name.data
        and s.target.data == program.target.data
        and (s.stage is None or s.stage.data == stage)
    ]
    for schedule in sorted(matching, key=lambda s: s.stage is not None):
        is_others = schedule.stage is None and not _shares(program, stage)
        given = schedule.settings.data
        settings |= {n: v for n, v in given.items() if n == REPRODUCIBLE.name} if is_others else given
    return settings


def _shares(program: c.ProgramOp, stage: str) -> bool:
    """Whether a schedule of the whole program is for a stage, too."""
    scheduled = {k.stage.data: kind_of(k) for k in program.kernels if kind_of(k).has_schedule}
    kind = scheduled.get(stage)
    return (
        kind is None or not kind.needs_own_schedule or all(k.needs_own_schedule for k in scheduled.values())
    )
