"""The bodies of device kernels: loads, scalar operations and stores, built from the values of a stage."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, SSAValue

from mucc.dialects.cutlass import nodes
from mucc.dialects.mu.ops.contraction import ContractionOp, GroupedMatmulOp
from mucc.dialects.mu.ops.elementwise import (
    AddOp,
    CastOp,
    ConstantOp,
    ElementwiseOp,
    MulOp,
    RetypeOp,
)
from mucc.dialects.mu.ops.indexed import GatherOp
from mucc.dialects.mu.ops.stage import StageOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, RegroupOp, TransposeOp
from mucc.dialects.mu.types import Dims, TensorType
from mucc.passes.access import (
    Access,
    Axes,
    Pattern,
    Problem,
    classify,
    is_inside,
    operand_axes,
)
from mucc.passes.program import ProgramBuilder, build_view
from mucc.passes.support import operands_first

LOADS = {
    Pattern.ROW: nodes.RowBroadcastOp,
    Pattern.COL: nodes.ColBroadcastOp,
    Pattern.SCALAR: nodes.ScalarBroadcastOp,
}


class Body:
    """The nodes of one device kernel: loads, scalar operations, stores."""

    def __init__(self, program: ProgramBuilder, stage: StageOp, problem: Problem | None):
        self.program = program
        self.stage = stage
        self.problem = problem
        self.is_grouped = isinstance(stage.anchor, GroupedMatmulOp)
        self.block = Block()
        self.values: dict[tuple[SSAValue, Axes], SSAValue] = {}
        self.loads: dict[Access, SSAValue] = {}

    def add(self, op: Operation, origin: Operation | None = None) -> SSAValue | None:
        if origin is not None:
            op.location = origin.location
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        """One element of a value of the stage, as an f32 (or a bool)."""
        for key in operands_first((value, axes), self._elements, self.values):
            self.values[key] = self._scalar(*key)
        return self.values[value, axes]

    def _elements(self, key: tuple[SSAValue, Axes]) -> list[tuple[SSAValue, Axes]]:
        """The elements that one element of a value of the stage is computed from."""
        value, axes = key
        if not is_inside(value, self.stage):
            return []
        match op := value.owner:
            case TransposeOp() | PermuteOp() | ExpandOp() | BroadcastOp() | ElementwiseOp():
                return [(v, operand_axes(op, v, axes)) for v in op.operands]
            case _:
                return []

    def _scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        if not is_inside(value, self.stage):
            return self.load(self.program.at(Access(value, axes)))
        match op := value.owner:
            case ContractionOp() if self.problem is None:
                return self.load(self.program.at(Access(value, axes)))
            case GatherOp():
                return self.load(self.program.at(Access(value, axes)))
            case ContractionOp():
                self.block.add_op(node := nodes.AccFetchOp(second=op is not self.stage.anchor))
                node.location = op.location
                return self.of_groups(op, node.result) if isinstance(op, GroupedMatmulOp) else node.result
            case ConstantOp():
                self.block.add_op(constant := ConstantOp(op.value))
                return constant.result
            case RegroupOp():
                return self.load(self.program.at(Access(value, axes)))
            case TransposeOp() | PermuteOp() | ExpandOp() | BroadcastOp() | RetypeOp():
                return self.scalar(op.operand, operand_axes(op, op.operand, axes))
            case CastOp():
                return self.cast(op, self.scalar(op.operand, operand_axes(op, op.operand, axes)))
            case ElementwiseOp():
                operands = [self.scalar(v, operand_axes(op, v, axes)) for v in op.operands]
                types = [op.infer([v.type for v in operands])]
                new = type(op).create(operands=operands, result_types=types, properties=dict(op.properties))
                new.location = op.location
                self.block.add_op(new)
                return new.results[0]
            case _:
                raise AssertionError(f"{op} in a stage")

    def of_groups(self, op: GroupedMatmulOp, value: SSAValue) -> SSAValue:
        """The product with the scale and the bias of the element's group."""
        found: list[Operation] = []
        if op.scale is not None:
            found.append(load := nodes.GroupScalarOp(self.program.plain(self.stage, op.scale)))
            found.append(scaled := MulOp(value, load.result))
            value = scaled.result
        if op.bias is not None:
            found.append(load := nodes.GroupRowOp(self.program.plain(self.stage, op.bias)))
            found.append(added := AddOp(value, load.result))
            value = added.result
        for new in found:
            self.add(new, op)
        return value

    def cast(self, op: CastOp, value: SSAValue) -> SSAValue:
        """Round to a narrower dtype and come back to f32; to f32 there is nothing to do."""
        if op.element_type == f32 and value.type == f32:
            return value
        self.block.add_op(narrow := CastOp(value, op.element_type))
        narrow.location = op.location
        if op.element_type == f32:
            return narrow.result
        self.block.add_op(wide := CastOp(narrow, f32))
        wide.location = op.location
        return wide.result

    def without_cast(self, value: SSAValue, destination: SSAValue) -> SSAValue:
        """The value before a rounding that the store does anyway."""
        assert isinstance(destination.type, TensorType)
        match value.owner:
            case CastOp(operand=narrow) if narrow.type == destination.type.element_type:
                inner = narrow.owner
                return inner.operand if isinstance(inner, CastOp) and inner.operand.type == f32 else value
            case _:
                return value

    def load(self, access: Access) -> SSAValue:
        rank = len(self.stage.space)
        if access not in self.loads:
            self.loads[access] = self._load(access, rank)
        return self.loads[access]

    def _load(self, access: Access, rank: int) -> SSAValue:
        outer = self.program.block
        if self.problem is None:
            node: nodes.LoadNode = nodes.LoadOp(build_view(access, rank, outer))
        else:
            space, folded = self.stage.space, self.problem.folded
            pattern = classify(access, space, folded)
            if pattern is Pattern.MATRIX and self.is_grouped and access.unit_axis != rank - 1:
                pattern = None
            if pattern is None:
                access = self.program.copy(self.stage, access, rank, self._seen(access, rank))
                pattern = classify(access, space, folded)
                assert pattern is not None
            if pattern is Pattern.MATRIX:
                has_source = any(isinstance(op, nodes.SrcFetchOp) for op in self.block.ops)
                kind = nodes.AuxLoadOp if has_source else nodes.SrcFetchOp
            else:
                kind = LOADS[pattern]
            node = kind(build_view(access, rank, outer))
        self.block.add_op(node)
        return node.result

    def _seen(self, access: Access, rank: int) -> Dims:
        """The space, with extent 1 for rows, columns and batches along which an access does not vary."""
        assert self.problem is not None
        first, space = rank - 2 - self.problem.folded, self.stage.space
        groups = (range(first), range(first, rank - 1), range(rank - 1, rank))
        return tuple(space[i] if access.walked & set(group) else 1 for group in groups for i in group)
