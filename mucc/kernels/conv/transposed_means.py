"""Compute the mean of all positions of a transposed convolution of sums of x and of its weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.conv import ConvTransposeOp
from mucc.dialects.mu.ops.elementwise import AddOp, MulOp
from mucc.dialects.mu.ops.pointwise import ConstantOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.shape import SliceOp
from mucc.dialects.mu.ops.views import ExpandOp, SqueezeOp
from mucc.dialects.mu.types import Shaped
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.affine import Appending, convolution_of, rebuilt

MOST = 8
"""The most parts of x that are summed up, each by a pass over it."""


class Part(NamedTuple):
    """Taps along one axis, and the elements of x that all of them bring into the result: first and end."""

    taps: tuple[int, int]
    elements: tuple[int, int]


def parts_of(window: Window, extent: int, places: int) -> list[Part]:
    """Divide the taps along an axis of x with `extent` elements by what of x they bring to `places`."""
    found: list[Part] = []
    for tap in range(window.size):
        shift = window.pad - tap * window.dilation
        first = max(0, -(-shift // window.stride))
        end = max(first, min(extent, (places - 1 + shift) // window.stride + 1))
        if found and found[-1].elements == (first, end):
            found[-1] = Part((found[-1].taps[0], tap + 1), (first, end))
        else:
            found.append(Part((tap, tap + 1), (first, end)))
    return [part for part in found if part.elements[0] < part.elements[1]]


class SpreadMean(RewritePattern):
    """`mean(conv_transpose(x, w) * a + b, axis=(2, 3))` -> `(sum(x) @ sum(w)) / count * a + b`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReduceOp) or op.kind.data not in (Reduction.MEAN, Reduction.SUM):
            return
        dims = Shaped.of(op.operand.type).dims
        found = convolution_of(op.operand)
        if list(op.axes.get_values()) != list(range(2, len(dims))) or not isinstance(found, ConvTransposeOp):
            return
        if not _is_worth(found):
            return
        count = math.prod(int(d) for d in dims[2:])
        made = _Builder(op, rewriter)
        result = rebuilt(op.operand, len(dims), made.add, made.products(found), made.vector)
        if op.kind.data is Reduction.SUM:
            result = made.add(MulOp(result, made.number(count)))
        rewriter.replace(op, [], [result])


def _is_worth(op: ConvTransposeOp) -> bool:
    """Whether sums of x read less than the result that is averaged, and are not of a group of channels."""
    x, w, result = (Shaped.of(v.type).dims for v in (op.operand, op.weight, op.result))
    if op.groups.value.data > 1 or op.channels_last is not None:
        return False
    if not all(isinstance(d, int) for d in (*x[1:], *w, *result[1:])):
        return False
    count = math.prod(len(parts) for parts in _parts(op))
    seen, made = (math.prod(int(d) for d in dims[1:]) for dims in (x, result))
    return 0 < count <= MOST and count * seen <= 2 * made + seen


def _parts(op: ConvTransposeOp) -> list[list[Part]]:
    x, result = Shaped.of(op.operand.type).dims[2:], Shaped.of(op.result.type).dims[2:]
    return [
        parts_of(window, int(extent), int(places))
        for window, extent, places in zip(op.windows, x, result, strict=True)
    ]


class _Builder:
    """Builds the means of values over all spatial axes, `[N, O]`."""

    def __init__(self, op: ReduceOp, rewriter: PatternRewriter):
        self.add = Appending(op, rewriter)
        self.axes = list(op.axes.get_values())

    def number(self, value: float) -> SSAValue:
        return self.add(ConstantOp(float(value)))

    def vector(self, value: SSAValue) -> SSAValue:
        """Drop the spatial axes, of extent 1, of a tensor `[O, 1, ..]` that scales or shifts channels."""
        rank = len(Shaped.of(value.type).dims)
        return self.add(SqueezeOp(value, list(range(1, rank)))) if rank > 1 else value

    def products(self, op: ConvTransposeOp) -> SSAValue:
        """Return the mean of a transposed convolution: products of sums of parts of x and of weights."""
        total: SSAValue | None = None
        for parts in itertools.product(*_parts(op)):
            x = self.sum(op.operand, [part.elements for part in parts])
            w = self.sum(op.weight, [part.taps for part in parts])
            terms = self.add(MulOp(self.add(ExpandOp(x, [2])), self.add(ExpandOp(w, [0]))))
            made = self.add(ReduceOp("sum", terms, [1]))
            total = made if total is None else self.add(AddOp(total, made))
        assert total is not None
        count = math.prod(int(d) for d in Shaped.of(op.result.type).dims[2:])
        return self.add(MulOp(total, self.number(1 / count)))

    def sum(self, value: SSAValue, ranges: Sequence[tuple[int, int]]) -> SSAValue:
        """Sum up the elements of a value in ranges along the spatial axes."""
        for axis, (first, end) in enumerate(ranges, 2):
            if (first, end) != (0, Shaped.of(value.type).dims[axis]):
                value = self.add(SliceOp(value, axis, first, end))
        return self.add(ReduceOp("sum", value, self.axes))
