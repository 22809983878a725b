"""Builder of a program of device kernels, with the place of each value of a `mu.kernel` in memory."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import Rewriter

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.elementwise import ExtentOp
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.kernel import KernelOp, ReturnOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import (
    AXIS_VIEWS,
    ExpandOp,
    IndexMapOp,
    PermuteOp,
    RegroupOp,
    SqueezeOp,
    TransposeOp,
    inverse,
)
from mucc.dialects.mu.types import Shaped, TensorType
from mucc.kernels.lowering.access import (
    Access,
    Axes,
    in_memory,
    transposed,
)


class ViewError(Exception):
    """An access that no chain of transpositions and inserted axes can express."""


def _positions(axes: Axes, rank: int) -> list[int] | None:
    """Return where each axis of a tensor lies in a space of `rank` axes; axes of extent 1 take free places.

    None where the axes are not in the order of the space.
    """
    positions: list[int] = []
    following = rank
    for axis in reversed(axes):
        following = following - 1 if axis is None else axis
        positions.insert(0, following)
    in_order = positions == sorted(set(positions)) and (not positions or positions[0] >= 0)
    return positions if in_order else None


def _permuted(access: Access, rank: int) -> list[int] | None:
    """Return an order of a tensor's axes that follows the space's axes; None if they do not fit.

    Axes of extent 1 take places that are free, the last ones first.
    """
    free = [p for p in range(rank) if p not in access.walked]
    places: list[int] = []
    for axis in reversed(access.axes):
        if axis is None and not free:
            return None
        places.insert(0, free.pop() if axis is None else axis)
    return sorted(range(len(places)), key=places.__getitem__)


def build_view(access: Access, rank: int, block: Block) -> SSAValue:
    """Append the views that align a tensor's axes with a space of `rank` axes; the aligned value.

    Leading axes of extent 1 are left out, as broadcasting adds them.
    """
    value, axes = access.base, access.axes
    turns = (positions := _positions(axes, rank)) is None and len(axes) >= 2
    if turns:
        positions = _positions(transposed(axes), rank)
    walked = tuple(axis for axis in axes if axis is not None)
    # A matrix that is turned says so in its type, where a permuted one does not.
    is_matrix = None in axes and len(walked) >= 2 and _positions(transposed(walked), rank) is not None
    if positions is None and not is_matrix and (permuted := _permuted(access, rank)) is not None:
        axes = tuple(access.axes[i] for i in permuted)
        positions, turns = _positions(axes, rank), False
        block.add_op(view := PermuteOp(value, permuted))
        value = view.result
    if positions is None and None in axes:
        block.add_op(view := SqueezeOp(value, [i for i, axis in enumerate(axes) if axis is None]))
        return build_view(Access(view.result, walked), rank, block)
    if positions is None:
        raise ViewError(f"axes {access.axes} of {access.base.type}")
    inserted = (
        [p - positions[0] for p in range(positions[0], rank) if p not in positions] if positions else []
    )
    # A matrix is turned last: the layout of one that is turned already is lost where axes are inserted.
    early = turns and all(p + positions[0] < rank - 2 for p in inserted)
    if turns and not early:
        block.add_op(turned := TransposeOp(value))
        value = turned.result
    if inserted:
        block.add_op(expanded := ExpandOp(value, inserted))
        value = expanded.result
    if early:
        block.add_op(turned := TransposeOp(value))
        value = turned.result
    return value


def _of_memory(view: SSAValue) -> Attribute:
    """Return the type of a view of a program's tensor, whose layout follows from that of the tensor."""
    match view.owner:
        case IndexMapOp():
            return in_memory(view)
        case TransposeOp() as op:
            return rules.transpose(op.operand.type)
        case SqueezeOp() as op:
            return rules.squeeze(op.operand.type, op.axes.get_values())
        case _:
            return view.type


class ProgramBuilder:
    """The program of one kernel, and the views, copies and workspace that its device kernels need."""

    def __init__(self, kernel: KernelOp, target: str):
        self.kernel = kernel
        self.target = target
        last = kernel.body.block.last_op
        assert isinstance(last, ReturnOp)
        self.returned = list(last.operands)
        inputs = list(kernel.function_type.inputs)
        outputs = list(kernel.function_type.outputs)
        attributes: dict[str, Attribute | None] = {
            "sym_name": kernel.sym_name,
            "target": StringAttr(target),
            "arg_names": ArrayAttr([*kernel.arg_names, *kernel.result_names]),
            "num_inputs": IntegerAttr(len(inputs), i64),
            "dims": kernel.dims,
            "bound": kernel.bound,
            "promises": kernel.promises,
            "implied": kernel.implied,
            "each": kernel.each,
        }
        self.program = c.ProgramOp([*inputs, *outputs], attributes, None)
        self.program.location = kernel.location
        self.block = self.program.body.block
        names = [*kernel.arg_names, *kernel.result_names]
        for arg, name in zip(self.block.args, names, strict=True):
            arg.name_hint = name.data
        self.memory: dict[SSAValue, SSAValue] = dict(
            zip(kernel.body.block.args, self.block.args[: len(inputs)], strict=True)
        )
        self.outputs = self.block.args[len(inputs) :]
        self.extents: dict[tuple[str, Attribute], SSAValue] = {}
        self.copies = 0
        self.orders: dict[SSAValue, Sequence[int]] = {}
        """The order of axes in memory, outermost first, of results of stages that is not row-major."""

    def destinations(self, value: SSAValue) -> list[SSAValue]:
        """Return the destinations of a stage's result: program outputs, else a new workspace tensor."""
        places: list[SSAValue] = [self.outputs[i] for i, r in enumerate(self.returned) if r is value]
        if (order := self.orders.get(value)) is not None:
            return [self._turned(value, order)]
        if not places:
            assert isinstance(value.type, TensorType)
            self.block.add_op(workspace := c.WorkspaceOp(value.type))
            places = [workspace.result]
        self.memory[value] = places[0]
        return places

    def _turned(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Return a new workspace tensor for a result, with its axes in another order in memory."""
        type = Shaped.of(value.type)
        turned = TensorType.of(tuple(type.dims[axis] for axis in order), type.element_type)
        self.block.add_op(workspace := c.WorkspaceOp(turned))
        self.block.add_op(view := PermuteOp(workspace.result, inverse(order)))
        self.memory[value] = workspace.result
        return view.result

    def regrouped(self, target: SSAValue, value: SSAValue) -> SSAValue:
        """Return a destination with the extents of a value that is stored there."""
        dims = Shaped.of(value.type).dims
        if Shaped.of(target.type).dims == dims:
            return target
        self.block.add_op(view := RegroupOp(target, dims))
        return view.result

    def at(self, access: Access) -> Access:
        """Return the access with the tensor's place in the program as its base."""
        order = self.orders.get(access.base, range(len(access.axes)))
        return Access(self.outside(access.base), tuple(access.axes[axis] for axis in order))

    def outside(self, value: SSAValue) -> SSAValue:
        """Return the program's value for a tensor or for a view of one."""
        views = (*AXIS_VIEWS, PickOp, RegroupOp, IndexMapOp)
        if value not in self.memory and isinstance(view := value.owner, views):
            if isinstance(view, RegroupOp):
                return self._regroup(value, view.operand)
            operands = {v: self.outside(v) for v in view.operands}
            self.block.add_op(clone := view.clone(operands))
            result = clone.results[0]
            self.memory[value] = Rewriter.replace_value_with_new_type(result, _of_memory(result))
        return self.memory.get(value, value)

    def _regroup(self, value: SSAValue, operand: SSAValue) -> SSAValue:
        """Return the program's value for a tensor in other extents, which views of memory only regroup."""
        while operand not in self.memory:
            if not isinstance(view := operand.owner, ExpandOp | SqueezeOp | RegroupOp):
                break
            operand = view.operand
        self.memory[value] = self.regrouped(self.outside(operand), value)
        return self.memory[value]

    def extent(self, extent: str, type: Attribute) -> SSAValue:
        """Return the program's value for an extent as a number, an f32 or an s32."""
        if (extent, type) not in self.extents:
            self.block.add_op(op := ExtentOp(extent, type))
            self.extents[extent, type] = op.result
        return self.extents[extent, type]

    def helper(self, stage: StageOp, what: str) -> str:
        """Return a new name for an auxiliary kernel of a stage, such as a copy."""
        self.copies += 1
        return f"{stage.stage_name.data}.{what}{self.copies - 1}"
