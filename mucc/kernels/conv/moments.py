"""Norms of a convolution's result whose statistics are combined from moments of its tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.by_name import is_convolution, is_pool
from mucc.dialects.mu.ops.conv import ConvolutionOp, PartialMomentsOp
from mucc.dialects.mu.ops.conversions import CastOp, RetypeOp, StoredOp
from mucc.dialects.mu.ops.elementwise import AddOp, ConstantOp, ElementwiseOp, MulOp, SubOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.shape import SliceOp
from mucc.dialects.mu.ops.stage import StageOp, YieldOp
from mucc.dialects.mu.ops.views import ExpandOp, RegroupOp, SqueezeOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType, dtype_bytes
from mucc.kernels.conv.cells import cells_of
from mucc.kernels.conv.channels import channel_axis, is_reduced
from mucc.kernels.conv.join_reader import join_reader, reader_of
from mucc.kernels.conv.layer import geometry_of, layer_of
from mucc.kernels.conv.op import Strategy
from mucc.kernels.conv.strategies import choose
from mucc.kernels.conv.windows import pooled_sizes
from mucc.kernels.lowering.access import is_inside
from mucc.kernels.traffic import LARGE
from mucc.library.extents import multiply
from mucc.target import get_target
from mucc.target.facts import Facts

LEAST = 32 << 20
"""Bytes of memory traffic that statistics of tiles have to save: 11 us at 3 TB/s, a launch or two."""

MOMENT_BYTES: Mapping[Strategy, float] = MappingProxyType({Strategy.PLANES: 2.3, Strategy.WARPGROUPS: 6.0})
"""What moments cost for an element of the result, in bytes of memory traffic, by strategy: measured
on an H100 for results with channels first (decision 76)."""

POOLED_BYTES = 2.5
"""What they cost besides where a pool reads the norm of `warpgroups`: 1.528 ms instead of 1.468 (H100)."""


class Norm(NamedTuple):
    """A stage that normalises a result of a convolution, and what its statistics are made of."""

    stage: StageOp
    before: StageOp
    """The stage of the convolution."""
    number: int
    """Which of its results is normalised."""
    first: ReduceOp
    """The sum."""
    second: ReduceOp
    """The sum of squared distances from the mean."""
    scale: float
    """The factor by which the sum becomes the mean: 1 / number of elements."""
    across: bool
    """Whether each channel has its statistics in the whole batch."""
    cells: int
    """Channels, or parts of them, that share their statistics."""


def _source(value: SSAValue, stage: StageOp) -> tuple[SSAValue, Dims]:
    """Return the tensor outside of a stage that a value is, and the value's extents."""
    dims = Shaped.of(value.type).dims
    while is_inside(value, stage) and isinstance(op := value.owner, RegroupOp | CastOp | RetypeOp):
        value = op.operand
    return value, dims


def _factor(op: Operation, value: SSAValue) -> float | None:
    """Return the constant that an operation multiplies a value with."""
    if not isinstance(op, MulOp):
        return None
    others = [operand.owner for operand in op.operands if operand is not value]
    constants = [other for other in others if isinstance(other, ConstantOp)]
    return constants[0].value.value.data if len(constants) == len(others) == 1 else None


def _mean_of(value: SSAValue, total: SSAValue) -> float | None:
    """Return the constant by which `value` is the product of a sum; None where it is something else."""
    factor: float | None = None
    while value is not total:
        op = value.owner
        if isinstance(op, ExpandOp | SqueezeOp):
            value = op.operand
        elif isinstance(op, MulOp) and factor is None:
            inner = next((v for v in op.operands if not isinstance(v.owner, ConstantOp)), None)
            if inner is None or (factor := _factor(op, inner)) is None:
                return None
            value = inner
        else:
            return None
    return factor


def _kept(dims: Dims, norm: Dims, gone: Sequence[int], channel: int) -> tuple[bool, int] | None:
    """Return whether statistics are across the batch, and how many channels share them.

    `dims` are those of the convolution's result, `norm` those by which it is normalised over axes `gone`.
    None where statistics are of anything else than whole channels.
    """
    outputs, kept = dims[channel], [axis for axis in range(len(norm)) if axis not in gone]
    if not isinstance(outputs, int) or len(norm) < 3:
        return None
    if norm == dims:
        shared: dict[tuple[int, ...], tuple[bool, int]]
        shared = {(channel,): (True, 1), (0, channel): (False, 1), (0,): (False, outputs)}
        return shared.get(tuple(kept))
    places = dims[2:] if channel == 1 else dims[1:-1]
    groups = norm[channel] if channel == 1 else norm[-2]
    if not isinstance(groups, int) or outputs % groups:
        return None
    parts = (groups, outputs // groups)
    split = (dims[0], *parts, *places) if channel == 1 else (dims[0], *places, *parts)
    merged = (dims[0], groups, multiply([parts[1], *places])) if channel == 1 else None
    at = 1 if channel == 1 else len(dims) - 1
    if norm in (split, merged) and kept == [0, at]:
        return False, parts[1]
    return None


def _norm_of(stage: StageOp) -> Norm | None:
    """Return what a stage normalises, with one mean and one variance; None where it does anything else."""
    anchors = [op for op in stage.body.block.ops if isinstance(op, AnchorOp)]
    if len(anchors) != 2 or stage.pinned is not None:
        return None
    first, second = anchors
    if not isinstance(first, ReduceOp) or not isinstance(second, ReduceOp):
        return None
    if any(op.kind.data is not Reduction.SUM for op in (first, second)) or first.axes != second.axes:
        return None
    result, dims = _source(first.operand, stage)
    before = result.owner
    if not isinstance(before, StageOp) or not is_convolution(anchor := before.anchor):
        return None
    square = second.operand.owner
    if not isinstance(square, MulOp) or square.operands[0] is not square.operands[1]:
        return None
    distance = square.operands[0].owner
    if not isinstance(distance, SubOp) or distance.operands[0] is not first.operand:
        return None
    scale = _mean_of(distance.operands[1], first.result)
    gone = first.axes.get_values()
    count = multiply([dims[axis] for axis in gone])
    if scale is None or not isinstance(count, int) or not math.isclose(scale * count, 1.0, rel_tol=1e-6):
        return None
    if Shaped.of(result.type).dims != anchor.space:
        return None
    kept = _kept(anchor.space, dims, gone, channel_axis(anchor))
    number = next(i for i, output in enumerate(before.outputs) if output is result)
    return None if kept is None else Norm(stage, before, number, first, second, scale, *kept)


def _pays(anchor: ConvolutionOp, norm: Norm, target: str) -> bool:
    """Whether statistics of tiles save more than it costs to find and to combine them.

    The kernel of a norm holds rows from one reduction to the next, and reads long columns twice. Where
    another kernel computes what is left of the norm, its result is neither stored nor read.
    """
    dims, facts = anchor.result_dims, get_target(target).facts
    if not all(isinstance(dim, int) for dim in dims[1:]):
        return False
    strategy = choose(layer_of(anchor, geometry_of(anchor)), facts)
    if (cost := MOMENT_BYTES.get(strategy)) is None:
        return False
    element = dtype_bytes(norm.before.outputs[norm.number].type.element_type)
    reader = reader_of(norm.stage, anchor.space, target)
    if reader is not None and is_pool(reader.anchor) and strategy is Strategy.WARPGROUPS:
        cost += POOLED_BYTES
    saved = 2 * element if reader is not None else 0
    saved += element if anchor.channels_last is not None else 0
    elements = multiply([dim if isinstance(dim, int) else LARGE for dim in dims])
    return isinstance(elements, int) and (saved - cost) * elements >= LEAST


def _measure(norm: Norm, facts: Facts) -> SSAValue:
    """Replace the stage of a convolution by one that stores moments as well, and return these.

    They are of the numbers that the stage stores, which the norm reads: a result that is equal everywhere is
    at no distance from its mean.
    """
    before = norm.before
    anchor, last = before.anchor, before.body.block.last_op
    assert is_convolution(anchor) and isinstance(last, YieldOp)
    batch = anchor.result_dims[0]
    layer = layer_of(anchor, geometry_of(anchor))._replace(measured=True)
    cells = multiply([norm.cells, cells_of(layer, batch, facts, across=norm.across)])
    rows = Shaped.of(norm.first.result.type).dims
    value, stored = last.values[norm.number], before.outputs[norm.number].type.element_type
    if stored != f32 and not isinstance(value.owner, CastOp | StoredOp):
        rounded = StoredOp(value, stored)
        rounded.location = norm.first.location
        before.body.block.insert_op_before(rounded, last)
        value = rounded.result
    moments = PartialMomentsOp(
        value, channel_axis(anchor), norm.across, TensorType.of((3, *rows, cells), f32)
    )
    moments.location = norm.first.location
    before.body.block.insert_op_before(moments, last)
    values = [value if i == norm.number else other for i, other in enumerate(last.values)]
    yielded = YieldOp([*values, moments.result])
    yielded.location = last.location
    before.body.block.add_op(yielded)
    last.detach()
    last.erase()
    old = list(before.outputs)
    types = [*(output.type for output in old), moments.result.type]
    region = before.detach_region(0)
    new = StageOp(before.stage_name.data, types, region, pinned=before.pinned is not None)
    new.location = before.location
    _replace(before, new, old)
    return new.outputs[-1]


def _replace(stage: StageOp, new: StageOp, old: Sequence[SSAValue]) -> None:
    """Put a stage in the place of another, whose results `old` become its first ones."""
    block = stage.parent_block()
    assert block is not None
    block.insert_op_before(new, stage)
    for one, other in zip(old, new.outputs, strict=False):
        one.replace_all_uses_with(other)
    stage.detach()
    stage.erase()


def _combined(block: Block, moments: SSAValue, norm: Norm) -> tuple[SSAValue, SSAValue]:
    """Append what combines moments of parts to the two sums of a norm, and return these.

    The sum of squared distances is that of the distances within parts, and of those of their means.
    """

    def add(op: Operation) -> SSAValue:
        op.location = norm.first.location
        block.add_op(op)
        return op.results[0]

    means, squares, counts = (
        add(SqueezeOp(add(SliceOp(moments, 0, part, part + 1)), [0])) for part in range(3)
    )
    last = len(Shaped.of(means.type).dims) - 1
    total = add(ReduceOp("sum", add(MulOp(means, counts)), [last]))
    mean = add(MulOp(add(ExpandOp(total, [last])), add(ConstantOp(norm.scale))))
    distance = add(SubOp(means, mean))
    of_means = add(MulOp(add(MulOp(distance, distance)), counts))
    return total, add(ReduceOp("sum", add(AddOp(squares, of_means)), [last]))


def _of_rows(norm: Norm) -> set[Operation]:
    """Return the operations of a stage whose results follow from the statistics alone."""
    known: set[SSAValue] = {norm.first.result, norm.second.result}
    found: set[Operation] = set()
    for op in norm.stage.body.block.ops:
        if not isinstance(op, ElementwiseOp | ExpandOp | SqueezeOp) or isinstance(op, ConstantOp):
            continue
        free = [v for v in op.operands if not isinstance(v.owner, ConstantOp)]
        if free and all(v in known for v in free):
            known.add(op.results[0])
            found.add(op)
    return found


def _is_map(norm: Norm) -> bool:
    """Whether a map can store what a norm stores besides its statistics: values of the same extents."""
    rows = {*_of_rows(norm), norm.first, norm.second}
    dims = Shaped.of(norm.first.operand.type).dims
    return all(Shaped.of(v.type).dims == dims for v in norm.stage.stored if v.owner not in rows)


def _divide(norm: Norm, moments: SSAValue, name: str) -> tuple[StageOp, Sequence[SSAValue]] | None:
    """Make two stages of one that normalises: statistics of moments, and pointwise work on the result.

    Returns the second one, and the statistics; None where nothing but these is stored.
    """
    stage, rows = norm.stage, _of_rows(norm)
    last = stage.body.block.last_op
    kernel = stage.parent_block()
    assert isinstance(last, YieldOp) and kernel is not None
    block, new = Block(), dict[SSAValue, SSAValue]()
    new[norm.first.result], new[norm.second.result] = _combined(block, moments, norm)
    for op in stage.body.block.ops:
        if isinstance(op, ConstantOp) or op in rows:
            block.add_op(copied := op.clone(dict(new)))
            copied.location = op.location
            new[op.results[0]] = copied.results[0]
    dropped: set[Operation] = {*rows, norm.first, norm.second}
    known = [v for v in new if v.owner in dropped]
    wanted = [v for v in known if any(use.operation not in dropped for use in v.uses)]
    block.add_op(yielded := YieldOp([new[v] for v in wanted]))
    yielded.location = last.location
    types = [TensorType.of(Shaped.of(v.type).dims, Shaped.of(v.type).element_type) for v in wanted]
    statistics = StageOp(name, types, Region(block))
    statistics.location = stage.location
    kernel.insert_op_before(statistics, stage)
    _erase_unused(statistics)
    results = dict(zip(wanted, statistics.outputs, strict=True))
    kept = [i for i, v in enumerate(last.values) if v not in results]
    for i, v in enumerate(last.values):
        if v in results:
            stage.outputs[i].replace_all_uses_with(results[v])
    values = [last.values[i] for i in kept]
    outputs = [stage.outputs[i] for i in kept]
    last.detach()
    last.erase()
    for old, to in results.items():
        old.replace_uses_with_if(to, lambda use: use.operation not in dropped)
    for op in reversed(list(stage.body.block.ops)):
        if op in dropped:
            op.detach()
            op.erase()
    stage.body.block.add_op(YieldOp(values))
    if not values:
        stage.detach()
        stage.erase()
        return None
    types = [output.type for output in outputs]
    region = stage.detach_region(0)
    mapped = StageOp(stage.stage_name.data, types, region)
    mapped.location = stage.location
    _replace(stage, mapped, outputs)
    _erase_unused(mapped)
    return mapped, statistics.outputs


def _erase_unused(stage: StageOp) -> None:
    """Erase the operations of a stage whose results nothing uses, the last first."""
    for op in reversed(list(stage.body.block.ops)):
        if op.results and not any(result.uses for result in op.results):
            op.detach()
            op.erase()


def _free_name(kernel: KernelOp, name: str) -> str:
    """Return a name that no stage has."""
    taken = {op.stage_name.data for op in kernel.body.block.ops if isinstance(op, StageOp)}
    names = (f"{name}{i or ''}" for i in range(len(taken) + 1))
    return next(n for n in names if n not in taken)


def share(kernel: KernelOp, target: str) -> None:
    """Divide all stages of a kernel that normalise the result of a convolution, where that pays."""
    facts = get_target(target).facts
    for stage in list(kernel.body.block.ops):
        if not isinstance(stage, StageOp) or (norm := _norm_of(stage)) is None:
            continue
        before, anchor = norm.before, norm.before.anchor
        assert is_convolution(anchor)
        has_moments = any(isinstance(op, PartialMomentsOp) for op in before.body.block.ops)
        if has_moments or is_reduced(before) or pooled_sizes(before) or not _is_map(norm):
            continue
        if not _pays(anchor, norm, target):
            continue
        last = before.body.block.last_op
        assert isinstance(last, YieldOp)
        if Shaped.of(last.values[norm.number].type).dims != anchor.space:
            continue
        dims, space = anchor.space, Shaped.of(norm.first.operand.type).dims
        inner = len(dims) - 2 if anchor.channels_last is None else 0
        moments = _measure(norm, facts)
        name = stage.stage_name.data
        if (divided := _divide(norm, moments, _free_name(kernel, f"{name}_moments"))) is not None:
            channels = _free_name(kernel, f"{name}_channels")
            join_reader(*divided, dims, space, inner, channels, target)
