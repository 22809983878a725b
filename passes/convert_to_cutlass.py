"""Convert stages to device kernels: `mu.kernel` with `mu.stage` becomes `cutlass.program`.

Pointwise work becomes ops on scalars between load and store nodes; `fuse-epilogue` then collects
them into bodies. A tensor that a kernel cannot read where it lies is first copied by a map kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, f32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mucc.dialects.cutlass import ops as c
from mucc.dialects.mu.elementwise import CastOp, ConstantOp, ElementwiseOp
from mucc.dialects.mu.indexed import GatherOp, ScatterOp
from mucc.dialects.mu.ops import (
    BroadcastOp,
    ContractionOp,
    ExpandOp,
    GroupedMatmulOp,
    KernelOp,
    MatmulOp,
    ReduceOp,
    RegroupOp,
    ReturnOp,
    StageKind,
    StageOp,
    TransposeOp,
)
from mucc.dialects.mu.types import Dims, LayoutAttr, Shaped, TensorType, dtype_bytes
from mucc.passes.access import (
    Access,
    Axes,
    Pattern,
    Problem,
    classify,
    identity,
    is_inside,
    lhs_access,
    operand_axes,
    operand_fits,
    pointwise_roots,
    problem_of,
    rhs_access,
    root_axes,
    through_views,
)
from mucc.passes.support import Pass, locate

LOADS = {
    Pattern.ROW: c.RowBroadcastOp,
    Pattern.COL: c.ColBroadcastOp,
    Pattern.SCALAR: c.ScalarBroadcastOp,
}


class ViewError(Exception):
    """An access that no chain of transpositions and inserted axes expresses."""


def _positions(axes: Axes, rank: int) -> list[int] | None:
    """Where each axis of a tensor lies in a space of `rank` axes, extent 1 wherever there is room.

    None where the axes are not in the order of the space.
    """
    positions: list[int] = []
    following = rank
    for axis in reversed(axes):
        following = following - 1 if axis is None else axis
        positions.insert(0, following)
    in_order = positions == sorted(set(positions)) and (not positions or positions[0] >= 0)
    return positions if in_order else None


def build_view(access: Access, rank: int, block: Block) -> SSAValue:
    """Append the views that align a tensor's axes with a space of `rank` axes; the aligned value.

    Leading axes of extent 1 are left out, as broadcasting adds them.
    """
    value, axes = access.base, access.axes
    turns = (positions := _positions(axes, rank)) is None and len(axes) >= 2
    if turns:
        positions = _positions((*axes[:-2], axes[-1], axes[-2]), rank)
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


class _Kernel:
    """Builds the program of one kernel."""

    def __init__(self, kernel: KernelOp, target: str):
        self.kernel = kernel
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
        self.copies = 0

    def convert(self) -> c.ProgramOp:
        for op in self.kernel.body.block.ops:
            if isinstance(op, StageOp):
                before = self.block.last_op
                self.stage(op)
                new = self.block.first_op if before is None else before.next_op
                while new is not None:
                    locate(new, op)
                    new = new.next_op
        return self.program

    def destinations(self, value: SSAValue) -> list[SSAValue]:
        """Where a stage's result goes: outputs of the program, else a place in the workspace."""
        places: list[SSAValue] = [self.outputs[i] for i, r in enumerate(self.returned) if r is value]
        if not places:
            assert isinstance(value.type, TensorType)
            self.block.add_op(workspace := c.WorkspaceOp(value.type))
            places = [workspace.result]
        self.memory[value] = places[0]
        return places

    def at(self, access: Access) -> Access:
        """The access with its base replaced by where that lies in the program."""
        return Access(self.outside(access.base), access.axes)

    def outside(self, value: SSAValue) -> SSAValue:
        """Where a tensor, or what a view of one looks at, lies in the program."""
        if value not in self.memory and isinstance(
            view := value.owner, TransposeOp | ExpandOp | GatherOp | RegroupOp
        ):
            operands = {v: self.outside(v) for v in view.operands}
            self.block.add_op(clone := view.clone(operands))
            self.memory[value] = clone.results[0]
        return self.memory.get(value, value)

    def stage(self, stage: StageOp) -> None:
        match stage.kind.data:
            case StageKind.CONTRACTION:
                self.contraction(stage)
            case StageKind.REDUCTION:
                self.reduction(stage)
            case StageKind.MAP | StageKind.SCATTER:
                self.map(stage, _Body(self, stage, None), stage.stage_name.data)

    def map(self, stage: StageOp, body: _Body, name: str) -> None:
        """A pointwise kernel that stores what the stage yields."""
        places = [self.destinations(r) for r in stage.outputs]
        for root, rows, targets in zip(pointwise_roots(stage), _row_numbers(stage), places, strict=True):
            value = body.scalar(root, root_axes(root, stage))
            for target in targets:
                given = body.without_cast(value, target)
                if rows is None:
                    body.add(c.StoreOp(given, target))
                else:
                    self.clear(stage, target)
                    body.add(c.ScatterStoreOp(given, target, self.outside(rows)))
        self.block.add_op(c.MapOp(name, stage.space, Region(body.block)))

    def clear(self, stage: StageOp, target: SSAValue) -> None:
        """Zeros for the rows that a scatter leaves out."""
        assert isinstance(target.type, TensorType)
        body = Block()
        body.add_op(zero := ConstantOp(0.0))
        body.add_op(c.StoreOp(zero.result, target))
        self.block.add_op(c.MapOp(self.helper(stage, "zero"), target.type.dims, Region(body)))

    def helper(self, stage: StageOp, what: str) -> str:
        """The name of a kernel that does something for a stage."""
        self.copies += 1
        return f"{stage.stage_name.data}.{what}{self.copies - 1}"

    def reduction(self, stage: StageOp) -> None:
        anchor = stage.anchor
        assert isinstance(anchor, ReduceOp)
        body = _Body(self, stage, None)
        for result in stage.outputs:
            for target in self.destinations(result):
                value = body.scalar(anchor.operand, identity(stage.space))
                body.add(c.ReduceStoreOp(anchor.kind, value, target))
        axes = anchor.axes.get_values()
        self.block.add_op(c.ReduceOp(stage.stage_name.data, stage.space, axes, Region(body.block)))

    def grouped(self, stage: StageOp, product: GroupedMatmulOp) -> None:
        """A grouped contraction.

        Its kernel stores one matrix. Where a stage stores several it writes the bare product, in f32, and a
        map does the rest.
        """
        name = stage.stage_name.data
        lhs, rhs = Shaped.of(product.lhs.type).dims, Shaped.of(product.rhs.type).dims
        wide = dtype_bytes(Shaped.of(product.lhs.type).element_type) == 4
        problem = problem_of(stage)
        a = self.operand(stage, lhs_access(stage, product), problem, lhs, k_major=wide)
        right = rhs_access(stage, product)
        b = self.operand(stage, right, problem, rhs, is_right=True, groups=True, k_major=wide)
        offsets = self.vector(stage, product.offsets)
        body = _Body(self, stage, problem)
        roots, rows = list(pointwise_roots(stage)), list(_row_numbers(stage))
        wanted = [self.outputs[i] for i, r in enumerate(self.returned) if r in stage.outputs]
        single = len(roots) == 1 and len(wanted) <= 1
        if single:
            (target,) = self.destinations(stage.outputs[0])
            value = body.without_cast(body.scalar(roots[0], root_axes(roots[0], stage)), target)
            if rows[0] is not None:
                self.clear(stage, target)
                body.add(c.ScatterDOp(value, target, self.vector(stage, rows[0])))
            else:
                body.add(c.StoreDOp(value, target))
        else:
            self.block.add_op(workspace := c.WorkspaceOp(TensorType.of(stage.space, f32)))
            target = workspace.result
            value = body.scalar(product.result, identity(stage.space))
            body.add(c.StoreDOp(value, target))
        shape = c.GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch)
        gemm = c.GemmOp(name, product.compute, a, b, shape, Region(body.block), offsets=offsets)
        gemm.location = product.location
        self.block.add_op(gemm)
        if not single:
            self.memory[product.result] = target
            self.map(stage, _Body(self, stage, None), self.helper(stage, "rest"))

    def vector(self, stage: StageOp, value: SSAValue) -> SSAValue:
        """An index tensor of one axis, its elements side by side: copied where they are not."""
        access = self.at(through_views(value, (0,), stage))
        dims = Shaped.of(value.type).dims
        if access.is_gathered or (dims != (1,) and access.unit_axis != 0):
            access = self.copy(stage, access, 1, dims)
        return access.base

    def contraction(self, stage: StageOp) -> None:
        matmul = stage.anchor
        if isinstance(matmul, GroupedMatmulOp):
            self.grouped(stage, matmul)
            return
        assert isinstance(matmul, MatmulOp)
        rank = len(stage.space)
        problem = problem_of(stage)
        a = self.operand(stage, lhs_access(stage, matmul), problem, Shaped.of(matmul.lhs.type).dims)
        b, *second = (
            self.operand(stage, rhs_access(stage, op), problem, Shaped.of(op.rhs.type).dims, is_right=True)
            for op in stage.contractions
        )
        places = [self.destinations(r) for r in stage.outputs]
        body = _Body(self, stage, problem)
        values: list[tuple[SSAValue, SSAValue]] = []
        last = stage.body.block.last_op
        assert last is not None
        for stored, targets in zip(last.operands, places, strict=True):
            owner = stored.owner
            for target in targets:
                if isinstance(owner, ReduceOp) and is_inside(stored, stage):
                    self.epilogue_reduction(body, owner, target, rank)
                else:
                    value = body.scalar(stored, root_axes(stored, stage))
                    values.append((body.without_cast(value, target), target))
        for i, (value, target) in enumerate(values):
            body.add((c.AuxStoreOp if i else c.StoreDOp)(value, target))
        gemm = c.GemmOp(
            stage.stage_name.data,
            matmul.compute,
            a,
            b,
            c.GemmShapeAttr.of(problem.m, problem.n, problem.k, problem.batch),
            Region(body.block),
            b2=next(iter(second), None),
            scales=[self.scale(stage, value) for value in matmul.scales],
        )
        gemm.acc = matmul.acc
        gemm.location = matmul.location
        self.block.add_op(gemm)

    def epilogue_reduction(self, body: _Body, op: ReduceOp, target: SSAValue, rank: int) -> None:
        axes = set(op.axes.get_values())
        value = body.scalar(op.operand, identity(Shaped.of(op.operand.type).dims))
        if axes == {rank - 1}:
            node = c.ColReductionOp
        elif rank - 1 in axes:
            node = c.ScalarReductionOp
        else:
            node = c.RowReductionOp
        body.add(node(op.kind, value, target))

    def operand(
        self,
        stage: StageOp,
        access: Access,
        problem: Problem,
        dims: Dims,
        *,
        is_right: bool = False,
        groups: bool = False,
        k_major: bool = False,
    ) -> SSAValue:
        """A contraction's operand as a view that the kernel can read, copied first where it cannot.

        A right operand has extent 1 along the batch axes that are folded into rows; `groups` says that it has
        an axis for groups of rows. Matrix instructions take operands of 8 bits contiguous along K only;
        `k_major` asks that of others too.
        """
        access, space, batch = self.at(access), stage.space, len(problem.batch)
        rank = len(space)
        if groups:
            space, rank, batch = dims, len(dims), 1
        k = rank - 2 if is_right else rank - 1
        k_major = k_major or dtype_bytes(Shaped.of(access.base.type).element_type) == 1
        single = frozenset(a for a, d in enumerate(dims[-2:], rank - 2) if d == 1 and a != k)
        if not operand_fits(access, rank, single, batch) or (k_major and access.unit_axis != k):
            # A copy for every batch or group, or one for all.
            walked = space[:batch] if any(axis < batch for axis in access.walked) else ()
            folded = space[batch : batch + problem.folded]
            if is_right:
                folded = (1,) * len(folded) if walked else ()
            layout = LayoutAttr.col_major() if k_major and is_right else LayoutAttr.row_major()
            access = self.copy(stage, access, rank, (*walked, *folded, *dims[-2:]), layout)
        return build_view(access, rank, self.block)

    def scale(self, stage: StageOp, value: SSAValue) -> SSAValue:
        """Where the scales of blocks lie."""
        access = through_views(value, identity(Shaped.of(value.type).dims), stage)
        return self.outside(access.base)

    def copy(
        self, stage: StageOp, access: Access, rank: int, dims: Dims, layout: LayoutAttr | None = None
    ) -> Access:
        """Write what an access sees into the workspace, row-major or as told, by a map kernel over `dims`."""
        element = Shaped.of(access.base.type).element_type
        self.block.add_op(workspace := c.WorkspaceOp(TensorType.of(dims, element, layout)))
        body = Block()
        view = build_view(access, rank, self.block)
        body.add_op(load := c.LoadOp(view))
        body.add_op(c.StoreOp(load.result, workspace.result))
        self.block.add_op(c.MapOp(self.helper(stage, "copy"), dims, Region(body)))
        return Access(workspace.result, identity(dims, rank - len(dims)))


class _Body:
    """The nodes of one device kernel: loads, scalar operations, stores."""

    def __init__(self, kernel: _Kernel, stage: StageOp, problem: Problem | None):
        self.kernel = kernel
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
        key = (value, axes)
        if key not in self.values:
            self.values[key] = self._scalar(value, axes)
        return self.values[key]

    def _scalar(self, value: SSAValue, axes: Axes) -> SSAValue:
        if not is_inside(value, self.stage):
            return self.load(self.kernel.at(Access(value, axes)))
        match op := value.owner:
            case ContractionOp() if self.problem is None:
                return self.load(self.kernel.at(Access(value, axes)))
            case GatherOp():
                return self.load(self.kernel.at(Access(value, axes)))
            case ContractionOp():
                self.block.add_op(node := c.AccFetchOp(second=op is not self.stage.anchor))
                node.location = op.location
                return node.result
            case ConstantOp():
                self.block.add_op(constant := ConstantOp(op.value))
                return constant.result
            case RegroupOp():
                return self.load(self.kernel.at(Access(value, axes)))
            case TransposeOp() | ExpandOp() | BroadcastOp():
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

    def cast(self, op: CastOp, value: SSAValue) -> SSAValue:
        """Round to a narrower dtype and come back to f32; to f32 there is nothing to do."""
        if op.element_type == f32 and value.type == f32:
            return value
        self.block.add_op(narrow := CastOp(value, op.element_type))  # type: ignore[arg-type]
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
        outer = self.kernel.block
        if self.problem is None:
            node: c.LoadNode = c.LoadOp(build_view(access, rank, outer))
        else:
            pattern = classify(access, rank, self.problem.folded)
            if pattern is Pattern.MATRIX and self.is_grouped and access.unit_axis != rank - 1:
                pattern = None
            if pattern is None:
                access = self.kernel.copy(self.stage, access, rank, self._seen(access, rank))
                pattern = classify(access, rank, self.problem.folded)
                assert pattern is not None
            if pattern is Pattern.MATRIX:
                has_source = any(isinstance(op, c.SrcFetchOp) for op in self.block.ops)
                kind = c.AuxLoadOp if has_source else c.SrcFetchOp
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


def _row_numbers(stage: StageOp) -> Iterator[SSAValue | None]:
    """For each value that a stage stores, the tensor that says where its rows go; None where they stay."""
    last = stage.body.block.last_op
    assert last is not None
    for value in last.operands:
        scatter = value.owner if is_inside(value, stage) else None
        yield scatter.rows if isinstance(scatter, ScatterOp) else None


@dataclass(frozen=True)
class ConvertToCutlass(Pass):
    """Lower staged kernels to programs of device kernels for one target."""

    name = "convert-to-cutlass"

    target: str = "sm_90a"

    def apply(self, ctx: Context | None, op: ModuleOp) -> None:
        block = op.body.block
        for kernel in list(block.ops):
            if isinstance(kernel, KernelOp):
                program = _Kernel(kernel, self.target).convert()
                block.insert_op_before(program, kernel)
                kernel.detach()
                kernel.erase()
