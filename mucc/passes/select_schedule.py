"""Choose a schedule for every kernel that has one: pinned settings, and the kind's choice for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.schedule_attributes import Switch, SwitchAttr
from mucc.dialects.mu.settings import REPRODUCIBLE, Chosen
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.interface import Query
from mucc.kernels.registry import kind_of
from mucc.kernels.settings import pinned


def unknown_stages(schedules: list[ScheduleOp], programs: list[ProgramOp]) -> Iterator[Finding]:
    """Return schedules that apply to no kernel."""
    for schedule in schedules:
        program = next((p for p in programs if _is_for(schedule, p)), None)
        if program is None:
            continue
        stages = {k.stage.data: kind_of(k).has_schedule for k in program.kernels}
        able = [name for name, has_schedule in stages.items() if has_schedule]
        name = None if schedule.stage is None else schedule.stage.data
        if name in able or (name is None and able) or _only_promises(schedule, stages):
            continue
        reason = "has no contraction to schedule" if name is None or name in stages else "does not exist"
        stage = "" if name is None else f"stage '{name}' of "
        yield Finding(
            code="MU2001",
            message=f"{stage}kernel '{schedule.kernel.data}' {reason}",
            location=schedule.location,
            helps=(f"stages with a schedule: {', '.join(able)}" if able else _OTHERS,),
        )


_OTHERS = "products and attention have schedules: the compiler chooses for all other kernels"


def _is_for(schedule: ScheduleOp, program: ProgramOp) -> bool:
    return (schedule.kernel, schedule.target.data) == (program.sym_name, program.target.data)


def _only_promises(schedule: ScheduleOp, stages: Mapping[str, bool]) -> bool:
    """Whether a schedule sets nothing for its kernel, or for its stage, but what every kernel has."""
    names = {*schedule.settings.data}
    return names <= {REPRODUCIBLE.name} and (schedule.stage is None or schedule.stage.data in stages)


@dataclass(frozen=True)
class SelectSchedule(Pass):
    """Set the settings that the schedules of kernels leave open, and the stage count if it is pinned.

    `sizes` are typical values of open dims, each as `M=128`.
    """

    name = "select-schedule"

    sizes: tuple[str, ...] = ()

    def measured(self, query: Query) -> Chosen:
        """Return settings that were measured to suit a kernel best; here none.

        `mucc.database.lookup` has a pass that knows some. They agree with what is pinned.
        """
        return {}

    @staticmethod
    def for_sizes(sizes: Mapping[str, int]) -> SelectSchedule:
        return SelectSchedule(tuple(f"{name}={value}" for name, value in sizes.items()))

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        schedules = [s for s in op.body.block.ops if isinstance(s, ScheduleOp)]
        programs = [p for p in op.body.block.ops if isinstance(p, ProgramOp)]
        if findings := list(unknown_stages(schedules, programs)):
            raise PassError(findings)
        words = (word.partition("=") for word in self.sizes)
        sizes = {name: int(value) for name, _, value in words}
        for program in programs:
            for kernel in program.kernels:
                settings = pinned(schedules, program, kernel.stage.data)
                if REPRODUCIBLE.is_on(settings) and not kind_of(kernel).has_schedule:
                    kernel.attributes[REPRODUCIBLE.name] = SwitchAttr(Switch.ON)
                kind_of(kernel).select(program, kernel, settings, sizes, self.measured)
