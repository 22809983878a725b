"""Find results that are stored with their channels last since convolutions read them so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from xdsl.ir import Operation, SSAValue, Use

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution
from mucc.dialects.mu.ops.conv import ConvolutionOp
from mucc.dialects.mu.ops.elementwise import ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.kernels.conv.channels import is_reduced
from mucc.kernels.conv.layer import Layer, geometry_of, layer_of
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.strategies import choose
from mucc.kernels.conv.windows import pooled_sizes
from mucc.kernels.lowering.access import is_inside
from mucc.target.facts import Facts

DENSE = (Strategy.WARPGROUPS, Strategy.MATRICES, Strategy.TILES)
"""Strategies with which a convolution takes no longer where the channels of x are last."""
Chosen = Callable[[Layer], Strategy]
"""What the strategy of a layer is."""

STORED_BY = (*DENSE, Strategy.PLANES)
"""Strategies whose results pass through shared memory, and are stored by vectors in either order of axes."""


def stored_orders(kernel: KernelOp, facts: Facts) -> Mapping[SSAValue, tuple[int, ...]]:
    """Return the order of axes in memory, outermost first, of results of convolutions with channels last.

    Only stages of the kernel read them. What pointwise work behind a convolution reads has the order of its
    result, so tensors that it ties together have one order: channels are last where no reader wants them
    first, and a convolution wants them last.
    """

    @cache
    def chosen(layer: Layer) -> Strategy:
        return choose(layer, facts)

    stages = [op for op in kernel.body.block.ops if isinstance(op, StageOp)]
    if not any(is_convolution(use.operation) for stage in stages for v in stage.outputs for use in v.uses):
        return {}
    stages = [stage for stage in stages if _stores_either(stage, chosen)]
    wanted: dict[SSAValue, bool | None] = {}
    ties: list[tuple[SSAValue, SSAValue]] = []
    for stage in stages:
        (value,) = stage.outputs
        wishes = [_wants_last(use, chosen) for use in value.uses]
        wanted[value] = None if None in wishes else any(wishes)
        ties += [(value, read) for read in _read(stage, (AnchorOp,))]
    refused = _tied({v for pair in ties for v in pair if v not in wanted} | _with(None, wanted), ties)
    last = _tied(_with(True, wanted) - refused, ties)
    return {value: (0, *range(2, len(Shaped.of(value.type).dims)), 1) for value in last}


def _with(wish: bool | None, wanted: Mapping[SSAValue, bool | None]) -> set[SSAValue]:
    """Return the values of which their readers want that together."""
    return {value for value, own in wanted.items() if own is wish}


def _tied(found: set[SSAValue], ties: list[tuple[SSAValue, SSAValue]]) -> set[SSAValue]:
    """Return tensors, and those that must have the same order of axes as one of them."""
    while more := {value for pair in ties if found.intersection(pair) for value in pair} - found:
        found = found | more
    return found


def _stores_either(stage: StageOp, chosen: Chosen) -> bool:
    """Whether a stage stores one tensor, with the extents of a convolution, as well with channels last."""
    anchor = stage.anchor
    if not is_convolution(anchor) or len(stage.outputs) != 1 or is_reduced(stage) or pooled_sizes(stage):
        return False
    assert isinstance(anchor, ConvolutionOp)
    dims = [Shaped.of(value.type).dims for value in (*stage.outputs, *stage.stored)]
    if anchor.channels_last is not None or any(d != anchor.result_dims for d in dims):
        return False
    return chosen(layer_of(anchor, geometry_of(anchor))) in STORED_BY


def _read(stage: StageOp, but: tuple[type[Operation], ...]) -> Iterator[SSAValue]:
    """Yield what operations of a stage `but` of some types read of several axes other than the batch."""
    for op in stage.body.block.ops:
        for value in () if isinstance(op, but) else op.operands:
            is_read = isinstance(value.type, TensorType) and not is_inside(value, stage)
            if is_read and sum(d != 1 for d in Shaped.of(value.type).dims[1:]) > 1:
                yield value


def _wants_last(use: Use, chosen: Chosen) -> bool | None:
    """Whether a reader is faster where channels are last; None where it wants them first."""
    op, stage = use.operation, use.operation.parent_op()
    if not isinstance(stage, StageOp):
        return None
    if is_convolution(op):
        assert isinstance(op, ConvolutionOp)
        layer = layer_of(op, geometry_of(op))
        return True if use.index == 0 and layer.whole and chosen(layer) in DENSE else None
    if isinstance(op, ElementwiseOp) and is_convolution(stage.anchor):
        return False if _stores_either(stage, chosen) else None
    anchors = [inner for inner in stage.body.block.ops if isinstance(inner, AnchorOp)]
    is_sum = (
        len(anchors) == 1 and isinstance(anchors[0], ReduceOp) and isinstance(op, ReduceOp | ElementwiseOp)
    )
    return False if is_sum and {*_read(stage, ())} == {use.operation.operands[use.index]} else None
