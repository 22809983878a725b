"""Lower stages to pointwise kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Region, SSAValue

from mucc.dialects.cutlass.nodes import StoreOp
from mucc.dialects.mu.ops.indexed import ScatterOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.lowering.access import is_inside, pointwise_roots, root_axes
from mucc.kernels.lowering.bodies import Body
from mucc.kernels.lowering.program import ProgramBuilder
from mucc.kernels.map.copies import clear
from mucc.kernels.map.nodes import ScatterStoreOp
from mucc.kernels.map.op import MapOp
from mucc.kernels.map.parts import Part, PartBody, equal_parts


def lower_map(builder: ProgramBuilder, stage: StageOp, body: Body, name: str) -> None:
    """Append a map kernel that stores what the stage yields."""
    if (parts := equal_parts(stage)) is not None:
        lower_parts(builder, stage, body, name, parts)
        return
    places = [builder.destinations(r) for r in stage.outputs]
    for root, rows, targets in zip(pointwise_roots(stage), row_numbers(stage), places, strict=True):
        value = body.scalar(root, root_axes(root, stage))
        for target in targets:
            given = body.without_cast(value, target)
            if rows is None:
                body.add(StoreOp(given, builder.regrouped(target, root)))
            else:
                clear(builder, stage, target)
                body.add(ScatterStoreOp(given, target, builder.outside(rows)))
    builder.block.add_op(MapOp(name, stage.space, Region(body.block)))


def lower_parts(
    builder: ProgramBuilder, stage: StageOp, body: Body, name: str, parts: Sequence[Part]
) -> None:
    """Append a map over one of several equal parts of a space, which stores an element of each."""
    places = [builder.destinations(r) for r in stage.outputs]
    for part in parts:
        of_part = PartBody(body, part)
        for root, targets in zip(pointwise_roots(stage), places, strict=True):
            axes = root_axes(root, stage)
            if part.axis not in axes and part.number:
                continue
            value = of_part.scalar(root, axes)
            where = (axes.index(part.axis), part.low) if part.axis in axes else None
            for target in targets:
                to = builder.regrouped(target, root)
                of_part.add(StoreOp(of_part.without_cast(value, target), to, where))
    builder.block.add_op(MapOp(name, parts[0].space(stage), Region(body.block)))


def row_numbers(stage: StageOp) -> Iterator[SSAValue | None]:
    """For each value that a stage stores, the tensor that says where its rows go; None where they stay."""
    for value in stage.stored:
        scatter = value.owner if is_inside(value, stage) else None
        yield scatter.rows if isinstance(scatter, ScatterOp) else None
