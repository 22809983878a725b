"""Move a norm with known statistics, which is pointwise work, into the kernel that reads its result."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, Region, SSAValue

from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.conversions import CastOp
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.stage import StageOp, YieldOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, RegroupOp, SqueezeOp
from mucc.dialects.mu.types import Dims, Shaped, TensorType
from mucc.kernels.lowering.access import is_inside
from mucc.kernels.registry import kind_of_stage


def reader_of(stage: StageOp, result: Dims, target: str) -> StageOp | None:
    """Return the one stage that reads a stage's only result and can compute it instead; None without one.

    It reads elements in the extents of `result`, or has a view of these, and reads each of them once.
    """
    if len(stage.outputs) != 1 or stage.pinned is not None:
        return None
    readers = {use.operation.parent_op() for use in stage.outputs[0].uses}
    if len(readers) != 1 or not isinstance(reader := readers.pop(), StageOp):
        return None
    anchor, kind = reader.anchor, kind_of_stage(reader, target)
    in_memory = () if anchor is None else kind.memory_operands(anchor)
    if isinstance(anchor, ReduceOp) and kind.name == "normalize" and not _has_rows(anchor):
        return None
    for read in _read(stage):
        uses = [use.operation for use in read.uses]
        if Shaped.of(read.type).dims != result or read in in_memory:
            return None
        if not all(isinstance(op, ElementwiseOp | AnchorOp) for op in uses):
            return None
    return reader


def _has_rows(op: ReduceOp) -> bool:
    """Whether neighbours in memory are reduced: a kernel holds them from one reduction to the next."""
    dims = Shaped.of(op.operand.type).dims
    long = [axis for axis, dim in enumerate(dims) if dim != 1]
    return not long or long[-1] in op.axes.get_values()


def _read(stage: StageOp) -> list[SSAValue]:
    """Return the values in which a map's result is read: itself, or views of it with other extents."""
    (result,) = stage.outputs
    views = [use.operation for use in result.uses if isinstance(use.operation, RegroupOp)]
    others = any(not isinstance(use.operation, RegroupOp) for use in result.uses)
    return [*(view.result for view in views), *([result] if others else [])]


class _Spread:
    """Rewrite pointwise work of a map from extents `[.., groups, channels, ..]` to those of a convolution.

    The convolution's result has one axis for groups and their channels; `inner` axes lie behind it.
    """

    def __init__(self, stage: StageOp, result: Dims, inner: int):
        self.stage, self.result, self.inner = stage, result, inner

    def merged(self, dims: Dims) -> Dims | None:
        """Return extents with one axis for groups and their channels; None where one alone is 1."""
        part = len(dims) - self.inner - 1
        if part < 1:
            return dims if part < 0 or dims[part] == 1 else None
        groups, channels = dims[part - 1], dims[part]
        if not isinstance(groups, int) or not isinstance(channels, int) or (groups > 1) != (channels > 1):
            return dims[: part - 1] + dims[part:] if groups == 1 == channels else None
        return (*dims[: part - 1], groups * channels, *dims[part + 1 :])

    def build(self, block: Block, known: dict[SSAValue, SSAValue]) -> SSAValue | None:
        """Append the work to a block, and return what the map yields; None where it has another form.

        `known` are values with an element a channel, by those of a group.
        """
        last = self.stage.body.block.last_op
        assert isinstance(last, YieldOp)
        new = dict(known)
        for op in self.stage.body.block.ops:
            if op is last:
                break
            if (made := self._op(op, new)) is None:
                return None
            if isinstance(made, Operation):
                made.location = op.location
                block.add_op(made)
                new[op.results[0]] = made.results[0]
            else:
                new[op.results[0]] = made
        return new.get(last.values[0], last.values[0])

    def _op(self, op: Operation, new: dict[SSAValue, SSAValue]) -> Operation | SSAValue | None:
        if isinstance(op, ConstantOp):
            return op.clone()
        if isinstance(op, RegroupOp):
            dims = Shaped.of(op.result.type).dims
            if dims == self.result:
                return new.get(op.operand, op.operand)
            if is_inside(op.operand, self.stage) or (merged := self.merged(dims)) is None:
                return None
            return op.operand if merged == Shaped.of(op.operand.type).dims else RegroupOp(op.operand, merged)
        if not isinstance(op, ElementwiseOp):
            return None
        operands = [new.get(v, v) for v in op.operands]
        for old in op.operands:
            dims = Shaped.of(old.type).dims
            # What is captured in the extents of the map has to have the same meaning in those of the result.
            if old not in new and self.merged(dims) != dims:
                return None
        dims = self.merged(Shaped.of(op.results[0].type).dims)
        if dims is None:
            return None
        element = Shaped.of(op.results[0].type).element_type
        type_ = TensorType.of(dims, element) if dims else op.results[0].type
        return type(op).create(operands=operands, result_types=[type_], properties=dict(op.properties))


def _channels(
    stage: StageOp, rows: Sequence[SSAValue], channels: int, result: Dims, inner: int, name: str
) -> dict[SSAValue, SSAValue]:
    """Insert a stage that repeats values of groups for each channel before another one.

    Returns its results by the values of groups.
    """
    block, values = Block(), list[SSAValue]()
    for row in rows:
        dims = Shaped.of(row.type).dims
        part = len(dims) - inner - 1
        wide = (*dims[:part], channels, *dims[part + 1 :])
        block.add_op(repeated := BroadcastOp(row, wide))
        block.add_op(copied := CastOp(repeated.result, Shaped.of(row.type).element_type))
        groups = dims[part - 1]
        assert isinstance(groups, int)
        merged = (*dims[: part - 1], groups * channels, *dims[part + 1 :])
        block.add_op(regrouped := RegroupOp(copied.result, merged))
        values.append(regrouped.result)
    block.add_op(YieldOp(values))
    types = [TensorType.of(Shaped.of(v.type).dims, Shaped.of(v.type).element_type) for v in values]
    made = StageOp(name, types, Region(block))
    made.location = stage.location
    for op in made.body.block.ops:
        op.location = stage.location
    kernel = stage.parent_block()
    assert kernel is not None
    kernel.insert_op_before(made, stage)
    return dict(zip(rows, made.outputs, strict=True))


def join_reader(
    stage: StageOp, rows: Sequence[SSAValue], result: Dims, space: Dims, inner: int, name: str, target: str
) -> None:
    """Move the work of a map that normalises into the stage that reads it, if there is one, and it can.

    `rows` are its statistics. `space` are the extents in which it is written, `result` those of the
    convolution, whose channels are groups of channels in `space` where the two differ; `inner` axes of it lie
    behind them. `name` is free for a stage that repeats statistics for each channel.
    """
    if (reader := reader_of(stage, result, target)) is None:
        return
    block = Block()
    if space == result:
        value = _cloned(stage, block)
    else:
        if len(space) != len(result) + 1:
            return
        spread = _Spread(stage, result, inner)
        channels = space[len(space) - inner - 1]
        assert isinstance(channels, int)
        if spread.build(Block(), {row: row for row in rows}) is None:
            return
        value = spread.build(block, _channels(stage, rows, channels, result, inner, name))
    if value is None:
        return
    first = reader.body.block.first_op
    assert first is not None
    for op in list(block.ops):
        op.detach()
        reader.body.block.insert_op_before(op, first)
    for read in _read(stage):
        read.replace_all_uses_with(value)
        if isinstance(view := read.owner, RegroupOp):
            view.detach()
            view.erase()
    stage.detach()
    stage.erase()


def _cloned(stage: StageOp, block: Block) -> SSAValue | None:
    """Append the work of a map to a block, and return the value that it yields."""
    new: dict[SSAValue, SSAValue] = {}
    for op in stage.body.block.ops:
        if isinstance(op, YieldOp):
            return new.get(op.values[0], op.values[0])
        if not isinstance(op, ConstantOp | ElementwiseOp | ExpandOp | SqueezeOp | BroadcastOp):
            return None
        block.add_op(copied := op.clone(dict(new)))
        copied.location = op.location
        new[op.results[0]] = copied.results[0]
    return None
