"""Describe an attention kernel's op as a problem whose schedule is chosen, and schedules as settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute

from mucc.dialects.mu.schedule_attributes import (
    Mainloop,
    MainloopAttr,
    SchedulerAttr,
    SchedulerKind,
    TileAttr,
)
from mucc.dialects.mu.settings import MAINLOOP, SCHEDULER, STAGES, TILE, Chosen
from mucc.dialects.mu.types import Dim
from mucc.kernels.attention.op import AttentionKernelOp
from mucc.kernels.attention.schedule import Problem, Schedule, complete
from mucc.kernels.attention.score_work import dtype_of, is_plain, shared_axes, width_of
from mucc.kernels.attention.tiles import DECODE_ROWS
from mucc.library.extents import names_of, polynomial
from mucc.target import get_target

SETTINGS = (TILE, MAINLOOP, STAGES, SCHEDULER)
"""The settings of attention, in the order in which schedules are told."""


def sharing_axes(op: AttentionKernelOp) -> int:
    """Return a bit for each leading axis along which queries share keys and values."""
    own = 3 if op.score.pages is not None else 2
    shared = shared_axes(len(op.extents) - 2, op.score.key, op.attend.value, own=own)
    # Each sequence has pages of its own.
    return shared & ~1 if op.score.pages is not None else shared


def problem_of(op: AttentionKernelOp, target: str, sizes: Mapping[str, int] | None = None) -> Problem:
    """Return what the schedule of a kernel depends on. `sizes` are typical values of open dims."""
    batch, (rows, columns) = op.extents[:-2], op.extents[-2:]
    known = [_known(extent, sizes or {}) for extent in (*batch, rows, columns)]
    leading = known[:-2]
    group = [extent for axis, extent in enumerate(leading) if sharing_axes(op) >> axis & 1]
    return Problem(
        compute="tf32" if op.is_f32 else dtype_of(op.attend.value),
        width=width_of(op.score.query),
        result_width=width_of(op.attend.value),
        rows=known[-2],
        columns=known[-1],
        batch=_product(leading),
        group=_product(group),
        causal=op.is_causal,
        ranged=op.is_ranged,
        # Where labels are compared there is no room for a third warpgroup either.
        plain=has_plain_scores(op) and op.attend.labels is None,
        page=op.score.page,
        may_decode=op.may_decode,
        is_many=not isinstance(rows, int) or rows > DECODE_ROWS,
        has_warpgroups=get_target(target).has_wgmma,
        shared_memory=get_target(target).smem_bytes,
    )


def has_plain_scores(op: AttentionKernelOp) -> bool:
    """Whether scores are positive multiples of products: their order is that of the products."""
    return op.attend.without_softmax is None and is_plain(op.score, op.attend.score)


def schedule_of(op: AttentionKernelOp, target: str) -> Schedule:
    """Return the schedule that a kernel is built with: what its op sets, the default for the rest."""
    return complete(problem_of(op, target), fields_of(settings_in(op)))


def settings_in(op: AttentionKernelOp) -> dict[str, Attribute]:
    """Return the settings that a kernel's op has."""
    return {s.name: value for s in SETTINGS if (value := s.of(op.properties)) is not None}


def fields_of(settings: Chosen) -> dict[str, Any]:
    """Return the fields of a schedule that settings fix: those of `Schedule`, and `tile`."""
    fixed: dict[str, Any] = {}
    if tile := TILE.of(settings):
        fixed["tile"] = tile.sizes
    if mainloop := MAINLOOP.of(settings):
        fixed["mainloop"] = mainloop.data.value
    if stages := STAGES.of(settings):
        fixed["stages"] = stages.value.data
    if scheduler := SCHEDULER.of(settings):
        fixed["parts"] = scheduler.splits.data
    return fixed


def settings_of(schedule: Schedule) -> dict[str, Attribute]:
    """Return a schedule as settings, which a schedule in the source could hold as well."""
    settings: dict[str, Attribute] = {
        TILE.name: TileAttr.of(schedule.rows, schedule.columns, schedule.depth),
        MAINLOOP.name: MainloopAttr(Mainloop(schedule.mainloop)),
        STAGES.name: IntegerAttr(schedule.stages, i64),
    }
    if schedule.parts is not None:
        kind = SchedulerKind.PERSISTENT if schedule.parts == 1 else SchedulerKind.SPLIT_K
        settings[SCHEDULER.name] = SchedulerAttr.of(kind, splits=schedule.parts)
    return settings


def _known(extent: Dim, sizes: Mapping[str, int]) -> int | None:
    """Return an extent's value at sizes of dims; None where one of its dims is open."""
    if isinstance(extent, int):
        return extent
    return polynomial(extent).at(sizes) if all(name in sizes for name in names_of((extent,))) else None


def _product(extents: list[int | None]) -> int | None:
    known = [extent for extent in extents if extent is not None]
    return math.prod(known) if len(known) == len(extents) else None
