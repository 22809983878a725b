"""Lower gradients of attention to their kernel."""

from __future__ import annotations

from xdsl.ir import Region

from mucc.dialects.mu.ops.attention import AttentionBackwardOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped
from mucc.kernels.attention.lower import ScoresBody
from mucc.kernels.attention_backward.op import (
    AttentionBackwardKernelOp,
    DifferentiateOp,
    StoreGradientOp,
)
from mucc.kernels.lowering.access import identity, pointwise_roots, through_views
from mucc.kernels.lowering.program import ProgramBuilder, build_view


def lower_backward(builder: ProgramBuilder, stage: StageOp) -> None:
    """Append the kernel of a stage around gradients of one attention."""
    anchor = stage.anchor
    assert isinstance(anchor, AttentionBackwardOp)
    body = ScoresBody(builder, stage, anchor)
    gradient, value = map(body.rows, (anchor.gradient, anchor.value))
    rows = [gradient, body.product.query, body.product.key, value]
    for numbers in (anchor.logsumexp, anchor.rows):
        dims = Shaped.of(numbers.type).dims
        access = builder.at(through_views(numbers, identity(dims), stage))
        rows.append(build_view(access, len(dims), builder.block))
    node = DifferentiateOp(body.score, rows, body.causal, body.first, body.last, body.labels)
    body.add(node, anchor)
    places = [builder.destinations(result) for result in stage.outputs]
    for root, targets in zip(pointwise_roots(stage), places, strict=True):
        op = root.owner
        assert isinstance(op, AttentionBackwardOp)
        for target in targets:
            body.add(StoreGradientOp(op.of.data, node.result, builder.regrouped(target, root)), op)
    space = (*Shaped.of(anchor.query.type).dims[:-1], Shaped.of(anchor.key.type).dims[-2])
    builder.block.add_op(AttentionBackwardKernelOp(stage.stage_name.data, space, Region(body.block)))
