"""Choose a schedule for every contraction: what the user pinned, the target's choice for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.schedule import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    ScheduleOp,
    SchedulerAttr,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.rewriting import Finding, Pass, PassError
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.config import Problem, Schedule


def pinned(schedules: list[ScheduleOp], program: c.ProgramOp, stage: str) -> dict[str, Attribute]:
    """What the user set for a stage; settings for the stage win over those for the kernel."""
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


def setting_text(value: Attribute) -> str:
    """A setting's value as source text."""
    match value:
        case MainloopAttr() | SwitchAttr():
            return value.data.value
        case IntegerAttr():
            return str(value.value.data)
        case _:
            return str(value)


def settings_of(choice: Schedule) -> dict[str, Attribute]:
    """A target's choice as settings, which a schedule in the source could hold as well."""
    settings: dict[str, Attribute] = {
        "tile": TileAttr.of(*choice.tile),
        "cluster": ClusterAttr.of(*choice.cluster),
        "mainloop": MainloopAttr(Mainloop(choice.mainloop)),
        "scheduler": SchedulerAttr.of(choice.scheduler, choice.raster, choice.swizzle, choice.splits),
    }
    if choice.exchanged:
        settings["exchange"] = SwitchAttr(Switch.ON)
    if choice.epilogue_tile is not None:
        settings["epilogue"] = EpilogueTileAttr.of(*choice.epilogue_tile)
    if choice.pdl:
        settings["pdl"] = SwitchAttr(Switch.ON)
    if choice.stages is not None:
        settings["stages"] = IntegerAttr(choice.stages, i64)
    return settings


def schedule_settings(choice: Schedule) -> dict[str, str]:
    """A target's choice as the text of settings."""
    return {name: setting_text(value) for name, value in settings_of(choice).items()}


def settings_in(gemm: GemmOp) -> tuple[tuple[str, str], ...]:
    """The settings that a contraction has, with their texts."""
    names = ("tile", "cluster", "mainloop", "scheduler", "exchange", "epilogue", "pdl", "stages")
    return tuple((name, setting_text(gemm.properties[name])) for name in names if name in gemm.properties)


class Query(NamedTuple):
    """A contraction whose schedule is to be chosen; `fixed` has the text of settings that are pinned."""

    kernel: str
    stage: str
    target: GemmTarget
    problem: Problem
    gemm: GemmOp
    fixed: Mapping[str, str]


def unknown_stages(schedules: list[ScheduleOp], programs: list[c.ProgramOp]) -> Iterator[Finding]:
    """Schedules that apply to no contraction."""
    for schedule in schedules:
        program = next((p for p in programs if p.sym_name.data == schedule.kernel.data), None)
        if program is None or schedule.stage is None:
            continue
        stages = {k.stage.data: k for k in program.kernels}
        kernel = stages.get(schedule.stage.data)
        if isinstance(kernel, GemmOp):
            continue
        contractions = [name for name, k in stages.items() if isinstance(k, GemmOp)]
        reason = "has no contraction to schedule" if kernel is not None else "does not exist"
        yield Finding(
            code="MU2001",
            message=f"stage '{schedule.stage.data}' of kernel '{schedule.kernel.data}' {reason}",
            location=schedule.location,
            helps=(f"stages with a schedule: {', '.join(contractions)}",) if contractions else (),
        )


@dataclass(frozen=True)
class SelectSchedule(Pass):
    """Fill in tile, cluster, mainloop, scheduler of every contraction, and the stage count if pinned.

    `sizes` are typical values of open dims, each as `M=128`.
    """

    name = "select-schedule"

    sizes: tuple[str, ...] = ()

    def measured(self, query: Query) -> Mapping[str, str]:
        """Settings that were measured to suit the contraction best; there are none here.

        `mucc.tune.lookup` has a pass that knows some. They agree with what is pinned.
        """
        return {}

    @staticmethod
    def for_sizes(sizes: Mapping[str, int]) -> SelectSchedule:
        return SelectSchedule(tuple(f"{name}={value}" for name, value in sizes.items()))

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        schedules = [s for s in op.body.block.ops if isinstance(s, ScheduleOp)]
        programs = [p for p in op.body.block.ops if isinstance(p, c.ProgramOp)]
        if findings := list(unknown_stages(schedules, programs)):
            raise PassError(findings)
        words = (word.partition("=") for word in self.sizes)
        sizes = {name: int(value) for name, _, value in words}
        for program in programs:
            for kernel in program.kernels:
                if isinstance(kernel, GemmOp):
                    self._select(program, kernel, pinned(schedules, program, kernel.stage.data), sizes)

    def _select(
        self,
        program: c.ProgramOp,
        gemm: GemmOp,
        settings: dict[str, Attribute],
        sizes: Mapping[str, int],
    ) -> None:
        target = gemm_target(program.target.data)
        problem = problem_of(gemm, sizes)
        fixed = {name: setting_text(value) for name, value in settings.items()}
        query = Query(program.sym_name.data, gemm.stage.data, target, problem, gemm, fixed)
        choice = target.default_schedule(problem, {**self.measured(query), **fixed})
        if sizes and not target.is_legal(problem.config(choice), choice.stages):
            # What is pinned does not suit typical sizes that no copy engine takes: it holds, they do not.
            wide = problem_of(gemm).granules
            choice = target.default_schedule(problem._replace(granules=wide), fixed)
        gemm.properties |= settings_of(choice) | settings
