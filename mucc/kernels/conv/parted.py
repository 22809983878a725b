"""Gradients of weights of f32 as products of pairs of bf16, whose rows wgmma takes innermost."""

from __future__ import annotations

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
from mucc.kernels.conv.strategies import Positions
from mucc.target.facts import Facts

HIGH, LOW = "high", "low"
Part = Literal["high", "low"]

PARTS: tuple[tuple[Part, ...], tuple[Part, ...]] = ((HIGH, LOW, HIGH), (HIGH, HIGH, LOW))
"""The parts of x and of weights that are multiplied with each other. That of both low ones is left out: it is
2^-16 of the whole, where tf32 rounds factors to 2^-11."""


def halved(layer: Layer, compute: Compute) -> Layer | None:
    """Return a layer of f32 as one of three times the channels in bf16; None if it computes otherwise."""
    if compute is not Compute.TF32:
        return None
    return layer._replace(compute="bf16", element_bytes=2, channels=3 * layer.channels)


class PartFactors(RewritePattern):
    """`conv(x, w)` -> `cast(conv(concat(x1, x2, x1), concat(w1, w1, w2)), f32)` with x = x1 + x2 in bf16.

    Channels, which the parts follow each other along, are the batch of the training step.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        from mucc.kernels.conv.shares import has_another_batch

        if not isinstance(op, ConvOp) or op.channels_last is not None:
            return
        x, w = Shaped.of(op.operand.type), Shaped.of(op.weight.type)
        if not all(isinstance(d, int) for d in (*x.dims, *w.dims)) or not has_another_batch(op.operand):
            return
        layer = halved(layer_of(op, geometry_of(op)), op.compute.data)
        if layer is None or Positions().refused(layer, self._facts) is not None:
            return

        def add(new: Operation) -> SSAValue:
            new.location = op.location
            rewriter.insert(new)
            return new.results[0]

        def parts(value: SSAValue, order: tuple[Part, ...], pad: PadOp | None = None) -> SSAValue:
            """Return `[C, N, ...]` as parts `[C, 3*N, ...]`, which lie in memory as `[3*N, ..., C]`."""
            rank = len(Shaped.of(value.type).dims)
            whole = add(PermuteOp(value, (*range(1, rank), 0)))
            high = add(CastOp(whole, bf16))
            rest = add(SubOp(whole, add(CastOp(high, f32))))
            # Of what is infinite, or rounded to that, nothing is left.
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

        pad = op.operand.owner if isinstance(op.operand.owner, PadOp) else None
        if pad is not None and (pad.mode.data is not Padding.CONSTANT or pad.value.value.data != 0):
            pad = None
        left = parts(op.operand if pad is None else pad.operand, PARTS[0], pad)
        right = parts(op.weight, PARTS[1])
        batch, outputs, *places = (int(d) for d in op.result_dims)
        conv = ConvOp.create(
            operands=[left, right],
            result_types=[TensorType.of((batch, *places, outputs), bf16)],
            properties={**op.properties, "compute": ComputeAttr(Compute.BF16), "channels_last": UnitAttr()},
        )
        sums = add(CastOp(add(conv), f32))
        rank = len(places) + 2
        rewriter.replace(op, [], [add(PermuteOp(sums, (0, rank - 1, *range(1, rank - 1))))])
