"""Lower stages to pointwise kernels."""

from __future__ import annotations

from collections.abc import Iterator

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


def lower_map(builder: ProgramBuilder, stage: StageOp, body: Body, name: str) -> None:
    """Append a map kernel that stores what the stage yields."""
    if any(op.name == "mu.inside" for op in stage.body.block.ops):
        from mucc.kernels.map.parts import equal_parts, lower_parts

        if (parts := equal_parts(stage)) is not None:
            lower_parts(builder, stage, body, name, parts)
            return
    places = [builder.destinations(r) for r in stage.outputs]
    roots = zip(stage.stored, pointwise_roots(stage), row_numbers(stage), places, strict=True)
    for stored, root, rows, targets in roots:
        value = body.scalar(root, root_axes(root, stage))
        for target in targets:
            given = body.without_cast(value, target)
            if rows is None:
                body.add(StoreOp(given, builder.regrouped(target, root)))
            else:
                clear(builder, stage, target)
                body.add(ScatterStoreOp(given, builder.regrouped(target, stored), builder.outside(rows)))
    builder.block.add_op(MapOp(name, stage.space, Region(body.block)))


def row_numbers(stage: StageOp) -> Iterator[SSAValue | None]:
    """Yield, for each stored value, the tensor with the new numbers of its rows; None without a scatter."""
    for value in stage.stored:
        scatter = value.owner if is_inside(value, stage) else None
        yield scatter.rows if isinstance(scatter, ScatterOp) else None
