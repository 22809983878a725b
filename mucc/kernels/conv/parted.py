"""Compute gradients of f32 weights as products of pairs of bf16, which wgmma takes with rows innermost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from xdsl.dialects.builtin import UnitAttr, bf16, f32
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr
from mucc.dialects.mu.ops.conv import ConvOp
from mucc.dialects.mu.ops.elementwise import AbsOp, CastOp, CmpOp, RetypeOp, SelectOp, SubOp
from mucc.dialects.mu.ops.placed import PlaceOp
from mucc.dialects.mu.ops.pointwise import ConstantOp
from mucc.dialects.mu.ops.shape import ConcatOp, Padding, PadOp, PermuteOp
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.kernels.conv.layer import Layer, geometry_of, layer_of
from mucc.kernels.conv.shares import may_be_gradient
from mucc.kernels.conv.strategies import Positions
from mucc.target.facts import Facts

HIGH, LOW = "high", "low"
Part = Literal["high", "low"]

PARTS: tuple[tuple[Part, ...], tuple[Part, ...]] = ((HIGH, LOW, HIGH), (HIGH, HIGH, LOW))
"""The parts of x and of weights that are multiplied with each other.

The product of both low parts is left out: it is 2^-16 of the whole, where tf32 rounds factors to 2^-11.
"""


def in_parts(layer: Layer, compute: Compute) -> Layer | None:
    """Return a layer of tf32 as one of bf16 with three times the channels; None for other formats."""
    if compute is not Compute.TF32:
        return None
    return layer._replace(compute="bf16", element_bytes=2, channels=3 * layer.channels)


class PartFactors(RewritePattern):
    """`conv(x, w)` -> `cast(conv(concat(x1, x2, x1), concat(w1, w1, w2)), f32)` with x = x1 + x2 in bf16.

    Parts are joined along the channels, which are the batch of the training step.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ConvOp) or not may_be_gradient(op):
            return
        layer = in_parts(layer_of(op, geometry_of(op)), op.compute.data)
        if layer is None or Positions().refused(layer, self._facts) is not None:
            return

        def add(new: Operation) -> SSAValue:
            new.location = op.location
            rewriter.insert(new)
            return new.results[0]

        pad = op.operand.owner if isinstance(op.operand.owner, PadOp) else None
        if pad is not None and (pad.mode.data is not Padding.CONSTANT or pad.value.value.data != 0):
            pad = None
        left = _parts(add, op.operand if pad is None else pad.operand, PARTS[0], pad)
        right = _parts(add, op.weight, PARTS[1])
        batch, outputs, *places = (int(d) for d in op.result_dims)
        conv = ConvOp.create(
            operands=[left, right],
            result_types=[TensorType.of((batch, *places, outputs), bf16)],
            properties={**op.properties, "compute": ComputeAttr(Compute.BF16), "channels_last": UnitAttr()},
        )
        sums = add(CastOp(add(conv), f32))
        rank = len(places) + 2
        rewriter.replace(op, [], [add(PermuteOp(sums, (0, rank - 1, *range(1, rank - 1))))])


def _parts(
    add: Callable[[Operation], SSAValue], value: SSAValue, order: tuple[Part, ...], pad: PadOp | None = None
) -> SSAValue:
    """Return `[C, N, ...]` as parts `[C, 3*N, ...]` of bf16, which lie in memory as `[3*N, ..., C]`.

    `add` inserts an operation. `pad` puts zeros around the spatial axes of the value.
    """
    rank = len(Shaped.of(value.type).dims)
    whole = add(PermuteOp(value, (*range(1, rank), 0)))
    high = add(CastOp(whole, bf16))
    rest = add(SubOp(whole, add(CastOp(high, f32))))
    # An infinite element, or one whose high part is infinite, has no finite rest: its low part is 0.
    is_less = add(CmpOp("le", add(AbsOp(rest)), add(AbsOp(whole))))
    low = add(CastOp(add(SelectOp(is_less, rest, add(ConstantOp(0.0)))), bf16))
    both = {HIGH: high, LOW: low}
    stored = add(RetypeOp(add(ConcatOp([both[p] for p in order], 0)), bf16))
    if pad is not None:
        before, wide = pad.low.get_values(), Shaped.of(pad.result.type).dims
        for axis in range(2, rank):
            if wide[axis] != Shaped.of(value.type).dims[axis]:
                stored = add(PlaceOp(stored, axis - 1, before[axis], wide[axis]))
    return add(PermuteOp(stored, (rank - 1, *range(rank - 1))))
