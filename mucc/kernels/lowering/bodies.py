"""The bodies of device kernels: loads, scalar operations and stores, built from the values of a stage."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp, LoadNode, LoadOp, StoreOp, are_bits
from mucc.dialects.cutlass.ops import WorkspaceOp
from mucc.dialects.mu.ops.base import AnchorOp
from mucc.dialects.mu.ops.elementwise import (
    CastOp,
    ConstantOp,
    ElementwiseOp,
    ExtentOp,
    RetypeOp,
    StoredOp,
)
from mucc.dialects.mu.ops.indexed import PickOp
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import AXIS_VIEWS, BroadcastOp, GeneratedOp, IndexMapOp, RegroupOp
from mucc.dialects.mu.types import TensorType
from mucc.dialects.walk import postorder
from mucc.kernels.lowering.access import (
    Access,
    Axes,
    is_inside,
    operand_axes,
    part_in_flight,
    pointwise_roots,
    root_axes,
)
from mucc.kernels.lowering.program import ProgramBuilder, build_view


class Body:
    """The nodes of one device kernel: loads, scalar operations, stores.

    What an anchor of the stage computes is loaded from memory; kernels that have it in flight say so in a
    subclass.
    """

    takes_integers: ClassVar[bool] = True

    def __init__(self, program: ProgramBuilder, stage: StageOp, rank: int | None = None):
        self.program = program
        self.stage = stage
        self.rank = len(stage.space) if rank is None else rank
        """The number of axes of the kernel's space; by default of that of the stage's pointwise work."""
        self.block = Block()
        self.values: dict[tuple[SSAValue, Axes], SSAValue] = {}
        self.loads: dict[Access, SSAValue] = {}

    def add(self, op: Operation, origin: Operation | None = None) -> SSAValue | None:
        if origin is not None:
            op.location = origin.location
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        """One element of a value of the stage: an f32, a bool, or where the kernel takes integers an s32."""
        for key in postorder((value, axes), self._elements, self.values):
            self.values[key] = self._scalar(*key)
        return self.values[value, axes]

    def _elements(self, key: tuple[SSAValue, Axes]) -> list[tuple[SSAValue, Axes]]:
        """Return the elements from which one element of a value of the stage is computed."""
        value, axes = key
        if not is_inside(value, self.stage):
            return []
        op = value.owner
        if (part := part_in_flight(value, self.stage)) is not None:
            return [(part.operand, axes)]
        if isinstance(op, (*AXIS_VIEWS, BroadcastOp, ElementwiseOp)):
            return [(v, operand_axes(op, v, axes)) for v in op.operands]
        return []

    def _scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        if not is_inside(value, self.stage):
            return self.load(self.program.at(Access(value, axes)))
        if (part := part_in_flight(value, self.stage)) is not None:
            return self.scalar(part.operand, axes)
        match op := value.owner:
            case _ if isinstance(op, AXIS_VIEWS):
                return self.scalar(op.operand, operand_axes(op, op.operand, axes))
            case AnchorOp():
                return self.anchor(op, axes)
            case PickOp():
                return self.load(self.program.at(Access(value, axes)))
            case ConstantOp():
                self.block.add_op(constant := ConstantOp(op.value))
                return constant.result
            case ExtentOp():
                return self.extent(op.extent.data, f32)
            case RegroupOp() | IndexMapOp():
                return self.load(self.program.at(Access(value, axes)))
            case GeneratedOp():
                return self.generated(op, axes)
            case BroadcastOp() | RetypeOp():
                return self.scalar(op.operand, operand_axes(op, op.operand, axes))
            case CastOp() | StoredOp():
                return self.cast(op, self.values[op.operand, operand_axes(op, op.operand, axes)])
            case ElementwiseOp():
                operands = [self.scalar(v, operand_axes(op, v, axes)) for v in op.operands]
                operands = [self.number(v, op) for v in operands]
                types = [op.result_type(operands)]
                new = type(op).create(operands=operands, result_types=types, properties=dict(op.properties))
                new.location = op.location
                self.block.add_op(new)
                return new.results[0]
            case _:
                raise AssertionError(f"{op} in a stage")

    def generated(self, op: GeneratedOp, axes: Axes) -> SSAValue:
        """One element of a tensor that is computed from indices."""
        from mucc.kernels.lowering.generated import generate

        return generate(self, op, axes)

    def anchor(self, op: AnchorOp, axes: Axes) -> SSAValue:
        """One element of what an anchor of the stage computes."""
        return self.load(self.program.at(Access(op.results[0], axes)))

    def store_results(self) -> None:
        """Append stores of the stage's results; one with several destinations is stored to each."""
        places = [self.program.destinations(result) for result in self.stage.outputs]
        for root, targets in zip(pointwise_roots(self.stage), places, strict=True):
            value = self.scalar(root, root_axes(root, self.stage))
            for target in targets:
                given = self.without_cast(value, target)
                self.add(StoreOp(given, self.destination(target, root)))

    def destination(self, target: SSAValue, root: SSAValue) -> SSAValue:
        """Return a destination with the extents of a value that is stored there."""
        return self.program.regrouped(target, root)

    def number(self, value: SSAValue, op: ElementwiseOp) -> SSAValue:
        """Return the number that an operation computes with: an s32 for integers, else an f32."""
        if value.type == i1 or isinstance(value.owner, ConstantOp):
            return value
        wanted = S32 if op.computes_integers else f32
        if value.type == wanted:
            return value
        if extent := _extent_of(value):
            return self.extent(extent, wanted)
        assert self.takes_integers or wanted == f32, f"{op.name} of integers in a kernel without them"
        self.block.add_op(cast := CastOp(value, wanted))
        cast.location = op.location
        return cast.result

    def cast(self, op: CastOp | StoredOp, value: SSAValue) -> SSAValue:
        """Round to a narrower dtype and come back to f32; to f32 there is nothing to do."""
        if value.type == op.element_type and value.type in (f32, S32):
            return value
        if op.element_type == S32 and self.takes_integers and (extent := _extent_of(value)):
            return self.extent(extent, S32)
        if self.takes_integers and op.element_type == S32:
            self.block.add_op(whole := CastOp(value, S32))
            whole.location = op.location
            return whole.result
        if value.type == S32 and op.element_type != f32:
            self.block.add_op(single := CastOp(value, f32))
            value = single.result
        self.block.add_op(narrow := CastOp(value, op.element_type))
        narrow.location = op.location
        if op.element_type == f32:
            return narrow.result
        self.block.add_op(wide := CastOp(narrow, f32))
        wide.location = op.location
        return wide.result

    def without_cast(self, value: SSAValue, destination: SSAValue) -> SSAValue:
        """Return the value before a cast to the destination's dtype, which the store does anyway."""
        assert isinstance(destination.type, TensorType)
        if value.type == S32:
            return self.stored_bits(value)
        match value.owner:
            case CastOp(operand=narrow) if narrow.type == destination.type.element_type:
                inner = narrow.owner
                return inner.operand if isinstance(inner, CastOp) and inner.operand.type == f32 else value
            case _:
                return value

    def leaves_cast(self, value: SSAValue, destination: SSAValue) -> bool:
        """Whether the store to a tensor of the workspace is what rounds a value as the program says."""
        if value.type != f32 or not isinstance(destination.owner, WorkspaceOp):
            return False
        return self.without_cast(value, destination) is not value

    def as_bits(self, value: SSAValue) -> SSAValue:
        """Return the bits of an s32 as an f32, the form in which nodes compute with it."""
        if isinstance(op := value.owner, BitsOp):
            return op.operand
        self.block.add_op(bits := BitsOp(value))
        return bits.result

    def stored_bits(self, value: SSAValue) -> SSAValue:
        """Return what a node stores of an s32: its bits, or the f32 it is cast from, which stores round."""
        if isinstance(op := value.owner, CastOp) and op.operand.type == f32:
            return op.operand
        return self.as_bits(value)

    def extent(self, extent: str, type: Attribute) -> SSAValue:
        """Load the value of an extent, an f32 or an s32, which the kernel gets as a run-time scalar."""
        return self.load(Access(self.program.extent(extent, type), ()))

    def load(self, access: Access) -> SSAValue:
        if access not in self.loads:
            self.loads[access] = self._load(access, self.rank)
        return self.loads[access]

    def _load(self, access: Access, rank: int) -> SSAValue:
        self.block.add_op(node := LoadOp(build_view(access, rank, self.program.block)))
        if not are_bits(node.result):
            return node.result
        self.block.add_op(number := BitsOp(node.result))
        return number.result


def _extent_of(value: SSAValue) -> str | None:
    """Return the extent whose value a node loads; None for other values."""
    source = load.source.owner if isinstance(load := value.owner, LoadNode) else None
    return source.extent.data if isinstance(source, ExtentOp) else None
