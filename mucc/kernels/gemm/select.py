"""Choose the schedule of a contraction: what the user pinned, the target's choice for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.schedule import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    SchedulerAttr,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.config import Problem, Schedule
from mucc.kernels.interface import Measured, Query
from mucc.kernels.settings import setting_text


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


@dataclass(frozen=True)
class GemmQuery(Query):
    """A contraction whose schedule is to be chosen."""

    target: GemmTarget
    problem: Problem
    gemm: GemmOp


def select(
    program: c.ProgramOp,
    gemm: GemmOp,
    settings: Mapping[str, Attribute],
    sizes: Mapping[str, int],
    measured: Measured,
) -> None:
    """Set the schedule of a contraction. `settings` are pinned, `sizes` typical values of open dims."""
    target = gemm_target(program.target.data)
    problem = problem_of(gemm, sizes)
    fixed = {name: setting_text(value) for name, value in settings.items()}
    query = GemmQuery(program.sym_name.data, gemm.stage.data, fixed, target, problem, gemm)
    choice = target.default_schedule(problem, {**measured(query), **fixed})
    if sizes and not target.is_legal(problem.config(choice), choice.stages):
        # What is pinned does not suit typical sizes that no copy engine takes: it holds, they do not.
        wide = problem_of(gemm).granules
        choice = target.default_schedule(problem._replace(granules=wide), fixed)
    gemm.properties |= {**settings_of(choice), **settings}
