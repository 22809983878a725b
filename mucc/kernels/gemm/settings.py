"""Schedules of contractions as settings, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute

from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    SchedulerAttr,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.settings import (
    CLUSTER,
    EPILOGUE,
    EXCHANGE,
    MAINLOOP,
    PDL,
    REPRODUCIBLE,
    SCHEDULER,
    STAGES,
    TILE,
)
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling.config import Pinned, Schedule

NEEDED = (TILE, CLUSTER, MAINLOOP, SCHEDULER)
"""The settings that every schedule has."""

TOLD = (TILE, CLUSTER, MAINLOOP, SCHEDULER, EXCHANGE, EPILOGUE, PDL, REPRODUCIBLE, STAGES)
"""The settings in the order in which a chosen schedule is told."""


def settings_of(schedule: Schedule) -> dict[str, Attribute]:
    """Return a target's choice as settings, which a schedule in the source could hold as well."""
    held: dict[str, Attribute | None] = {
        TILE.name: TileAttr.of(*schedule.tile),
        CLUSTER.name: ClusterAttr.of(*schedule.cluster),
        MAINLOOP.name: MainloopAttr(Mainloop(schedule.mainloop)),
        SCHEDULER.name: SchedulerAttr.of(
            schedule.scheduler, schedule.raster, schedule.swizzle, schedule.splits
        ),
        EXCHANGE.name: SwitchAttr(Switch.ON) if schedule.exchanged else None,
        EPILOGUE.name: EpilogueTileAttr.of(*schedule.epilogue_tile) if schedule.epilogue_tile else None,
        PDL.name: SwitchAttr(Switch.ON) if schedule.pdl else None,
        REPRODUCIBLE.name: SwitchAttr(Switch.ON) if schedule.reproducible else None,
        STAGES.name: IntegerAttr(schedule.stages, i64) if schedule.stages is not None else None,
    }
    return {name: value for name, value in held.items() if value is not None}


def pinned_fields(settings: Mapping[str, Attribute]) -> Pinned:
    """Return the fields of a schedule that settings fix."""
    pinned: Pinned = {}
    if tile := TILE.of(settings):
        pinned["tile"] = tile.sizes
    if cluster := CLUSTER.of(settings):
        pinned["cluster"] = cluster.sizes
    if mainloop := MAINLOOP.of(settings):
        pinned["mainloop"] = mainloop.data.value
    if scheduler := SCHEDULER.of(settings):
        pinned["scheduler"] = scheduler.kind.data
        pinned["raster"] = scheduler.raster.data
        pinned["swizzle"] = scheduler.swizzle.data
        pinned["splits"] = scheduler.splits.data
    if exchange := EXCHANGE.of(settings):
        pinned["exchanged"] = exchange.data is Switch.ON
    if piece := EPILOGUE.of(settings):
        pinned["epilogue_tile"] = piece.sizes
    if pdl := PDL.of(settings):
        pinned["pdl"] = pdl.data is Switch.ON
    if reproducible := REPRODUCIBLE.of(settings):
        pinned["reproducible"] = reproducible.data is Switch.ON
    if stages := STAGES.of(settings):
        pinned["stages"] = stages.value.data
    return pinned


def schedule_from(settings: Mapping[str, Attribute]) -> Schedule:
    """Return the schedule of settings that hold all that a schedule needs."""
    return replace(Schedule((0, 0, 0)), **pinned_fields(settings))


def settings_in(gemm: GemmOp) -> dict[str, Attribute]:
    """Return the settings of a contraction."""
    return {s.name: value for s in TOLD if (value := gemm.properties.get(s.name)) is not None}
