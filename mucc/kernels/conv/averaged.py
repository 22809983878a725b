"""Average windows of a convolution's result by one convolution with a larger window and stride."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from mucc.dialects.mu.ops.by_name import is_pool
from mucc.dialects.mu.ops.conv import ConvolutionOp, ConvOp, ConvTransposeOp
from mucc.dialects.mu.ops.elementwise import AddOp, MulOp
from mucc.dialects.mu.ops.pointwise import ConstantOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.shape import FlipOp, PadOp, PermuteOp, SliceOp
from mucc.dialects.mu.pooling_kinds import Pooling
from mucc.dialects.mu.types import Shaped, dtype_name
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.affine import Appending, convolution_of, rebuilt
from mucc.kernels.conv.layer import Layer, geometry_of, layer_between, layer_of
from mucc.kernels.conv.op import Geometry
from mucc.kernels.conv.strategies import WAYS, fastest
from mucc.kernels.conv.windows import refusal
from mucc.target.facts import Facts

GAIN = 0.8
"""What the one convolution may take of the time of the other one and its pool, as both are estimates."""

PREPARING = 6e-6
"""Seconds for the launches that average the weights: about two, of 2 to 3 us each."""

ELEMENT_BYTES = 4
"""Bytes of an f32, as weights of fewer bits are not averaged."""

MOST_TERMS = 64
"""The most places at which each tap is read by the kernel that averages weights."""

MOST_TAPS = 1024
"""The most taps of a window: further ones leave no room for a tile."""


class Term(NamedTuple):
    """Taps of one axis of the weights: `first`, `first + step`, .., added to a longer axis at `place`.

    `turned` ones are in reverse order.
    """

    first: int
    taps: int
    step: int
    turned: bool
    place: int


class Axis(NamedTuple):
    """How the weights of one axis become a sum of terms, of `extent` taps, and the convolution with it."""

    terms: list[Term]
    extent: int
    stride: int
    dilation: int
    low: int
    high: int
    """Zeros before and after x; less than 0 where its last elements have no part."""

    @property
    def is_window(self) -> bool:
        """Whether each term has all taps, one place after those of the one before."""
        whole = {term._replace(place=0) for term in self.terms}
        return [t.place for t in self.terms] == list(range(len(self.terms))) and whole == {
            Term(0, self.extent - len(self.terms) + 1, 1, False, 0)
        }


def axis_of(window: Window, pool: Window, extent: int, places: int, transposed: bool) -> Axis | None:
    """Return how the window of a convolution and that of a pool become one, along an axis of x with `extent`
    elements and `places` results of the pool. None where no convolution computes the same.

    Without padding of the pool, the mean of results `q*s .. q*s + m - 1` reads, of a convolution, elements
    `q*s*S + j*S + t*D - p` by tap t; of a transposed one with S = s, elements `q + (j + p - t) / S`.
    """
    if pool.pad or pool.dilation != 1:
        return None
    if not transposed:
        if window.stride % window.dilation:
            return None
        move = window.stride // window.dilation
        terms = [Term(0, window.size, 1, False, j * move) for j in range(pool.size)]
        taps = (pool.size - 1) * move + window.size
        return Axis(terms, taps, window.stride * pool.stride, window.dilation, window.pad, window.pad)
    stride, pad = window.stride, window.pad
    if pool.stride != stride or window.dilation != 1 or pad >= window.size:
        return None
    low = (window.size - 1 - pad) // stride
    spread: list[Term] = []
    for j in range(pool.size):
        first = (j + pad) % stride  # of the taps that bring elements to these results
        count = len(range(first, window.size, stride))
        if count:
            last = first + (count - 1) * stride
            spread.append(Term(first, count, stride, True, (j + pad - last) // stride + low))
    taps = max(term.place + term.taps for term in spread)
    return Axis(spread, taps, 1, 1, low, places + taps - 1 - low - extent)


def axes_of(op: ConvolutionOp, pool: PoolOp) -> list[Axis] | None:
    """Return for each spatial axis how a convolution and a pool become one; None where they cannot."""
    if pool.kind.data is not Pooling.AVG or pool.ceil is not None:
        return None
    transposed = isinstance(op, ConvTransposeOp)
    x, w, places = (Shaped.of(v.type) for v in (op.operand, op.weight, pool.result))
    names = {dtype_name(t.element_type) for t in (x, w)}
    if op.channels_last is not None or pool.channels_last is not None or names != {"f32"}:
        return None  # averages of 16-bit weights would be rounded to 16 bits
    if transposed and op.groups.value.data > 1:
        return None
    if not all(isinstance(d, int) for d in (*x.dims[1:], *w.dims, *places.dims[1:])):
        return None
    found = [
        axis_of(window, one, int(extent), int(count), transposed)
        for window, one, extent, count in zip(
            op.windows, pool.windows, x.dims[2:], places.dims[2:], strict=True
        )
    ]
    axes = [axis for axis in found if axis is not None]
    if len(axes) < len(found) or math.prod(w.size for w in pool.windows) == 1:
        return None
    is_small = math.prod(len(axis.terms) for axis in axes) <= MOST_TERMS or all(a.is_window for a in axes)
    return axes if is_small and math.prod(axis.extent for axis in axes) <= MOST_TAPS else None


class Averages(RewritePattern):
    """`avg_pool(conv(x, w) * a + b, m)` -> `conv(x, v, stride=m) * a + b`, if that should be faster.

    v has the averages of w at all places that it takes in a window of the pool.
    """

    def __init__(self, facts: Facts):
        self._facts = facts

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not is_pool(op) or (found := convolution_of(op.operand)) is None:
            return
        if (axes := axes_of(found, op)) is None:
            return
        count = math.prod(w.size for w in op.windows)
        if (divisor := op.divides_by or count) != count and op.operand is not found.result:
            return  # what shifts the convolution is summed up, and then divided by another number
        after = PREPARING + fastest(WAYS, averaged_layer(found, op, axes), self._facts)[1]
        if after >= GAIN * pooled_seconds(found, op, self._facts):
            return
        add = Appending(op, rewriter)
        made = convolved(found, axes, divisor, add)
        rank = len(Shaped.of(op.result.type).dims)
        rewriter.replace(op, [], [rebuilt(op.operand, rank, add, made.result, lambda v: v)])


def pooled_seconds(op: ConvolutionOp, pool: PoolOp, facts: Facts) -> float:
    """Estimate the time of a convolution and a pool, in one kernel where that can be."""
    layer = layer_of(op, geometry_of(op))
    sizes = tuple(w.size for w in pool.windows)
    stored = layer.rows * layer.outputs * layer.groups * layer.element_bytes
    pooled = stored // math.prod(w.stride for w in pool.windows)
    inside: Layer = layer._replace(pooled=sizes, moved=layer.moved - stored + pooled)
    if refusal(op, pool) is None and any(way.refused(inside, facts) is None for way in WAYS):
        return fastest(WAYS, inside, facts)[1]
    bandwidth = facts.devices[0].datasheet["dram_bandwidth"]
    return fastest(WAYS, layer, facts)[1] + (stored + pooled) / bandwidth


def averaged_layer(op: ConvolutionOp, pool: PoolOp, axes: list[Axis]) -> Layer:
    """Describe the convolution with averaged weights."""
    x, w = Shaped.of(op.operand.type).dims, Shaped.of(op.weight.type).dims
    outputs, channels = (w[1], w[0]) if isinstance(op, ConvTransposeOp) else w[:2]
    padded = [axis.low != axis.high for axis in axes]
    if any(padded):
        x = (*x[:2], *(int(d) + axis.low + axis.high for d, axis in zip(x[2:], axes, strict=True)))
    geometry = Geometry(
        [axis.stride for axis in axes],
        [0 if any(padded) else axis.low for axis in axes],
        [axis.dilation for axis in axes],
        op.groups.value.data,
    )
    weights = (outputs, channels, *(axis.extent for axis in axes))
    compute = op.compute.data.value
    return layer_between(x, weights, Shaped.of(pool.result.type).dims, geometry, compute, ELEMENT_BYTES)


def convolved(op: ConvolutionOp, axes: list[Axis], divisor: int, add: Appending) -> ConvOp:
    """Build the convolution of x with averaged weights."""
    x, w = op.operand, op.weight
    if isinstance(op, ConvTransposeOp):
        w = add(PermuteOp(w, [1, 0, *range(2, len(axes) + 2)]))
    if all(axis.is_window for axis in axes):
        w = _pooled(w, axes, divisor, add)
    else:
        for n, axis in enumerate(axes, 2):
            w = _averaged(w, n, axis, add)
        w = add(MulOp(w, add(ConstantOp(1.0 / divisor))))
    lows, highs = [axis.low for axis in axes], [axis.high for axis in axes]
    for n, high in enumerate(highs, 2):
        if high < 0:
            x = add(SliceOp(x, n, 0, int(Shaped.of(x.type).dims[n]) + high))
    if lows != highs:
        x = add(PadOp(x, [0, 0, *lows], [0, 0, *(max(high, 0) for high in highs)]))
        lows = [0] * len(axes)
    made = ConvOp(
        x,
        w,
        stride=[axis.stride for axis in axes],
        pad=lows,
        dilation=[axis.dilation for axis in axes],
        groups=op.groups.value.data,
        compute=op.compute,
    )
    add(made)
    return made


def _pooled(w: SSAValue, axes: list[Axis], divisor: int, add: Appending) -> SSAValue:
    """Average weights that move by one tap from result to result: a pool of the weights between zeros."""
    sizes = [len(axis.terms) for axis in axes]
    around = [0, 0, *(size - 1 for size in sizes)]
    return add(PoolOp("avg", add(PadOp(w, around, around)), sizes, 1, divisor=divisor))


def _averaged(w: SSAValue, n: int, axis: Axis, add: Appending) -> SSAValue:
    """Sum up the terms of axis `n` of the weights."""
    rank, total = len(Shaped.of(w.type).dims), None
    for term in axis.terms:
        part = w
        if (term.first, term.step, term.taps) != (0, 1, Shaped.of(w.type).dims[n]):
            stop = term.first + (term.taps - 1) * term.step + 1
            part = add(SliceOp(part, n, term.first, stop, term.step))
        if term.turned and term.taps > 1:
            part = add(FlipOp(part, [n]))
        low, high = [0] * rank, [0] * rank
        low[n], high[n] = term.place, axis.extent - term.place - term.taps
        if low[n] or high[n]:
            part = add(PadOp(part, low, high))
        total = part if total is None else add(AddOp(total, part))
    assert total is not None
    return total
