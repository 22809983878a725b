"""Interpret convolutions and pooling: a loop over the taps of a window, vectorised over all positions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdsl.ir import Operation

from mucc.dialects.mu.arrays import Arrays
from mucc.dialects.mu.meanings.base import Machine, Meaning, along
from mucc.dialects.mu.ops.conv import ConvOp, ConvTransposeOp, PartialMomentsOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.pooling_kinds import Pooling
from mucc.dialects.mu.windows import Window

DEPTH = 256
"""Channels by taps that one product of a convolution takes: a product for each tap of a large window of few
channels would mostly add up results."""


def _strided(window: Window, tap: int, places: int) -> slice:
    """Slice the elements that one tap of a window reads, at all of its positions."""
    first = tap * window.dilation
    return slice(first, first + (places - 1) * window.stride + 1, window.stride)


def _taps(windows: Sequence[Window], places: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield each tap of windows over several axes, with the index of the elements that the tap reads."""
    for tap in itertools.product(*(range(w.size) for w in windows)):
        parts = (_strided(w, t, n) for w, t, n in zip(windows, tap, places, strict=True))
        yield tap, (..., *parts)


def _padded(
    arrays: Arrays, x: Any, windows: Mapping[int, Window], places: Sequence[int], value: float
) -> Any:
    """Pad `x` with `value` along the axes of windows, at the end as far as the last windows reach."""
    shape, inside = [int(n) for n in x.shape], [slice(None)] * len(x.shape)
    for (axis, w), count in zip(windows.items(), places, strict=True):
        inside[axis] = slice(w.pad, w.pad + shape[axis])
        shape[axis] = max((count - 1) * w.stride + w.reach, shape[axis] + w.pad)
    frame = arrays.full(tuple(shape), value)
    frame[tuple(inside)] = x
    return frame


def _factors(machine: Machine, op: ConvOp | ConvTransposeOp, values: Sequence[Any]) -> list[Any]:
    """Return the operands as products read them."""
    return [machine.factor(op, v, x) for v, x in zip(op.operands, values, strict=True)]


def convolved(
    arrays: Arrays, x: Any, w: Any, windows: Sequence[Window], places: Sequence[int], groups: int
) -> Any:
    """Convolve `[N, C, ...]` with `[O, C/groups, ...]` at so many places along each spatial axis."""
    batch, outputs, channels = int(x.shape[0]), int(w.shape[0]), int(x.shape[1]) // groups
    frame = _padded(arrays, x, dict(enumerate(windows, 2)), places, 0.0)
    taps = list(_taps(windows, places))
    few = max(1, DEPTH // max(channels, 1))
    result: Any = 0.0
    for first in range(0, len(taps), few):
        some = taps[first : first + few]
        seen = [frame[index].reshape((batch, groups, channels, -1)) for _, index in some]
        weights = [w[(..., *tap)].reshape((groups, outputs // groups, -1)) for tap, _ in some]
        result = result + arrays.xp.concatenate(weights, 2) @ arrays.xp.concatenate(seen, 2)
    return result.reshape((batch, outputs, *places))


def spread(
    arrays: Arrays, x: Any, w: Any, windows: Sequence[Window], places: Sequence[int], groups: int
) -> Any:
    """Spread `[N, C, ...]` by `[C, O/groups, ...]` over so many elements along each spatial axis."""
    batch, outputs = int(x.shape[0]), int(w.shape[1]) * groups
    extents = [int(n) for n in x.shape[2:]]
    lengths = [
        max(window.spread(e) + 2 * window.pad, window.pad + n)
        for window, e, n in zip(windows, extents, places, strict=True)
    ]
    result = arrays.full((batch, outputs, *lengths), 0.0)
    values = x.reshape((batch, groups, int(x.shape[1]) // groups, -1))
    for tap, index in _taps(windows, extents):
        weights = w[(..., *tap)].reshape((groups, int(x.shape[1]) // groups, -1))
        part = arrays.xp.swapaxes(weights, -1, -2) @ values
        result[index] += part.reshape((batch, outputs, *extents))
    kept = (slice(window.pad, window.pad + n) for window, n in zip(windows, places, strict=True))
    return result[(..., *kept)]


def _ordered(machine: Machine, op: ConvOp | ConvTransposeOp | PoolOp, result: Any) -> Any:
    """Return a result `[N, C, ...]` in the order of the operation's."""
    return result if op.channels_last is None else channels_last(machine.arrays, result)


def channels_last(arrays: Arrays, x: Any) -> Any:
    """Return `[N, C, ...]` as `[N, ..., C]`."""
    return arrays.permute(x, (0, *range(2, len(x.shape)), 1))


def _conv(machine: Machine, op: ConvOp, x: Any, w: Any) -> Any:
    windows = op.windows
    places = [window.places(int(n)) for window, n in zip(windows, x.shape[2:], strict=True)]
    return _ordered(machine, op, convolved(machine.arrays, x, w, windows, places, op.groups.value.data))


def _conv_transpose(machine: Machine, op: ConvTransposeOp, x: Any, w: Any) -> Any:
    windows, more = op.windows, op.output_pad.get_values()
    places = [window.spread(int(n), m) for window, n, m in zip(windows, x.shape[2:], more, strict=True)]
    return _ordered(machine, op, spread(machine.arrays, x, w, windows, places, op.groups.value.data))


def pooled_windows(
    arrays: Arrays,
    kind: Pooling,
    x: Any,
    windows: Mapping[int, Window],
    shape: Sequence[int],
    *,
    count_pad: bool,
    divisor: int | None = None,
) -> Any:
    """Reduce the windows along some last axes of `x` to a value of this shape."""
    is_max = kind is Pooling.MAX
    places = [shape[axis] for axis in windows]
    frame = _padded(arrays, x, windows, places, float("-inf") if is_max else 0.0)
    parts = (frame[index] for _, index in _taps(list(windows.values()), places))
    result = next(parts)
    for part in parts:
        result = arrays.xp.maximum(result, part) if is_max else result + part
    if is_max or divisor is not None:
        return result if divisor is None else result / divisor
    for axis, window in windows.items():
        extent = int(x.shape[axis])
        counts = (window.covered if count_pad else window.seen)(extent, shape[axis])
        result = result / along(shape[axis], axis, len(shape), arrays.float64(counts))
    return result


def pooled_terms(arrays: Arrays, op: PoolOp, x: Any) -> Any:
    """Return what each window of a mean adds up, along a new last axis of the pooled tensor; padding is 0."""
    windows = dict(enumerate(op.windows, 2))
    places = [w.places(int(x.shape[axis]), op.ceil is not None) for axis, w in windows.items()]
    frame = _padded(arrays, x, windows, places, 0.0)
    taps = [frame[index] for _, index in _taps(list(windows.values()), places)]
    return arrays.xp.stack(taps if op.channels_last is None else [channels_last(arrays, t) for t in taps], -1)


def _pool(machine: Machine, op: PoolOp, x: Any) -> Any:
    windows = dict(enumerate(op.windows, 2))
    places = [w.places(int(x.shape[axis]), op.ceil is not None) for axis, w in windows.items()]
    shape = [*map(int, x.shape[:2]), *places]
    count_pad = op.count_pad is not None
    result = pooled_windows(
        machine.arrays, op.kind.data, x, windows, shape, count_pad=count_pad, divisor=op.divides_by
    )
    return _ordered(machine, op, result)


def partial_moments(arrays: Arrays, x: Any, channel: int, across: bool, shape: tuple[int, ...]) -> Any:
    """Return means, sums of squared distances and counts of the channels of `x`, in the first cell of each.

    `shape` is that of `PartialMomentsOp`'s result.
    """
    others = [axis for axis in range(1, len(x.shape)) if axis != channel]
    kept, gone = ([channel], [0, *others]) if across else ([0, channel], others)
    lead = tuple(int(x.shape[axis]) for axis in kept)
    rows = arrays.permute(x, (*kept, *gone)).reshape((*lead, -1))
    count = int(rows.shape[-1])
    mean = arrays.reduce("sum", rows, (len(lead),)).reshape((*lead, 1)) / count
    distances = rows - mean
    squares = arrays.reduce("sum", distances * distances, (len(lead),)).reshape((*lead, 1))
    cells = math.prod(shape) // (3 * math.prod(lead))
    result = arrays.full((3, *lead, cells), 0.0)
    for part, value in enumerate((mean, squares, arrays.full((*lead, 1), float(count)))):
        result[part, ..., :1] = value
    return result.reshape(shape)


def _partial_moments(machine: Machine, op: PartialMomentsOp, x: Any) -> Any:
    shape = machine.shape(op.result.type)
    return partial_moments(machine.arrays, x, op.channel.value.data, op.across is not None, shape)


MEANINGS: dict[type[Operation], Meaning] = {
    PartialMomentsOp: lambda m, op, v: _partial_moments(m, op, v[0]),
    ConvOp: lambda m, op, v: _conv(m, op, *_factors(m, op, v)),
    ConvTransposeOp: lambda m, op, v: _conv_transpose(m, op, *_factors(m, op, v)),
    PoolOp: lambda m, op, v: _pool(m, op, v[0]),
}
