"""The epilogue of a contraction by mucc's own collective, which compiles in half the time of CUTLASS's.

It stores one matrix, computed by one body from the accumulator, rows, columns and numbers. Whatever
else an epilogue does is left to CUTLASS (see `graph`), but for pairs and ranges of columns: those of pairs
also read matrices, reduce, and store several, and those of ranges read matrices, and store each range to a
matrix of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from xdsl.ir import Operation, SSAValue

from mucc.codegen.memory import CUTLASS_TYPES, ZERO, EmissionError
from mucc.codegen.reductions import REDUCTIONS
from mucc.dialects.cutlass.nodes import ComputeOp, InsideOp, ReductionNode
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.types import Dim, TensorType, dtype_bytes
from mucc.kernels.gemm.emission.graph import Epilogue, Node, ordered
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.nodes import (
    AccFetchOp,
    AuxLoadOp,
    AuxStoreOp,
    ColBroadcastOp,
    GroupReduceOp,
    GroupRowOp,
    GroupScalarOp,
    GroupStoreOp,
    MatrixStore,
    RowBroadcastOp,
    ScalarBroadcastOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.kernels.gemm.op import GemmOp

_NODES = AccFetchOp | RowBroadcastOp | ColBroadcastOp | ScalarBroadcastOp | ComputeOp | StoreDOp

_ROWS, _COLUMNS = 64, 16
"""What a tile is a multiple of: rows for each warpgroup that works on it, and columns."""

_FAST = {Mainloop.COOPERATIVE: (128, 256), Mainloop.WARPSPECIALIZED: (64, 128)}
"""Rows of tiles for which the collective is as fast as CUTLASS's on an H200, for results of 16 bits: 1 to 3 %
faster for cooperative tiles of 128 rows at K = 512 to 4096, the same for those of 256. Results of 32 bits are
3 % slower, pingpong kernels 3 % at K = 512 (8192x8192, 192x128x64): those stay with CUTLASS."""


def warpgroups(mainloop: Mainloop) -> int:
    """How many warpgroups work on one output tile together."""
    return 2 if mainloop is Mainloop.COOPERATIVE else 1


def is_lean(op: GemmOp, d: Matrix | None, tile: tuple[int, ...], mainloop: Mainloop) -> bool:
    """Whether the collective can do an epilogue."""
    if op.is_pair or op.ranges or op.group_columns:
        return op.epilogue is None and tile[1] % _COLUMNS == 0
    nodes = list(op.nodes)
    bodies = [node for node in nodes if isinstance(node, ComputeOp)]
    stored = [node for node in nodes if isinstance(node, StoreDOp)]
    if op.epilogue is not None or d is None or len(bodies) > 1 or len(stored) != 1:
        return False
    if not all(isinstance(node, _NODES) for node in nodes):
        return False
    if tile[1] % _COLUMNS or not _is_fast(op, d, tile, mainloop):
        return False
    (store,) = stored
    return _is_single(op, store.value) or (isinstance(store.value.owner, AccFetchOp) and not bodies)


def _is_single(op: GemmOp, value: SSAValue) -> bool:
    """Whether a value is computed by one body of all accumulators and loads, and nothing else is needed."""
    body = value.owner
    if not isinstance(body, ComputeOp):
        return False
    readers = {use.operation for node in op.nodes for result in node.results for use in result.uses}
    accumulators = sum(isinstance(v.owner, AccFetchOp) for v in body.inputs)
    return readers == {body, *op.stores} and accumulators == 1 + op.is_pair


def _is_fast(op: GemmOp, d: Matrix, tile: tuple[int, ...], mainloop: Mainloop) -> bool:
    if d.memory.type.dtype not in ("bf16", "f16") or op.compute.data in (Compute.S8, Compute.U8):
        return False
    return tile[0] in _FAST.get(mainloop, ())


@dataclass
class LeanEpilogue(Epilogue):
    """What the text of such an epilogue is made of; `tile` is the output tile of so many `warpgroups`."""

    warpgroups: int = 1
    tile: tuple[int, ...] = ()
    fetched: list[str] = field(default_factory=list[str])
    """A C++ initializer of a `mucc::gemm::Fetched` for each matrix that is read."""
    ranges: list[str] = field(default_factory=list[str])
    """One of a `ColumnRanges::Range` for each range of columns that is stored."""

    def build(self) -> Self:
        """Write the loads and the body; `root` has the collective's arguments."""
        loads: dict[Operation, Node] = {}
        for op in ordered(self.op.nodes):
            match op:
                case AccFetchOp():
                    self.names[op.result] = "acc2" if op.second else "acc"
                    self.nodes[op] = Node("")
                case RowBroadcastOp() | ColBroadcastOp() | ScalarBroadcastOp():
                    loads[op] = self.nodes[op] = self._lean_load(op)
                case SrcFetchOp() | AuxLoadOp():
                    loads[op] = self.nodes[op] = self.load_matrix(op)
                case InsideOp():
                    loads[op] = self.nodes[op] = self._inside(op)
                case GroupRowOp() | GroupScalarOp():
                    loads[op] = self.nodes[op] = self.load_by_group(op)
                case GroupReduceOp():
                    self.names[op.result] = f"{op.kind.data}{len(self.nodes)}"
                    self.nodes[op] = Node("")
                case ComputeOp():
                    self.names[op.result] = f"y{len(self.bodies)}"
                    self.nodes[op] = Node(self.body(op))
                case _:
                    continue
        self.ranges = [self._range(store) for store in self.op.ranges]
        parts = list(loads.values())
        if self._is_plain():
            if not self.bodies:
                self.passing_body("acc")
            work = self.bodies[0].name
        else:
            work = self._graph_of(list(loads), parts)
        types = [str(len(self.op.ranges))] if self.op.ranges else []
        types += ["TileShape", str(self.warpgroups), "ElementD", "StrideD", work]
        types += [node.type for node in parts]
        arguments = ", ".join(node.arguments for node in parts)
        type = f"{self.wrapper}mucc::gemm::{self.template}<{', '.join(types)}>{'>' * bool(self.wrapper)}"
        self.root = Node(type, f"{{{arguments}}}")
        return self

    @property
    def template(self) -> str:
        """The collective's name in mucc::gemm."""
        return "PairEpilogue" if self.op.is_pair else "RangesEpilogue" if self.op.ranges else "Epilogue"

    @property
    def wrapper(self) -> str:
        """What is put around it, up to its `<`."""
        return ""

    @property
    def thread_rows(self) -> int:
        """Rows of a tile of which a thread holds elements."""
        return 2 * self.tile[0] // (_ROWS * self.warpgroups)

    def _is_plain(self) -> bool:
        """Whether one matrix is stored that one body computes, or the accumulator."""
        destination = self.op.destination
        if destination is None or len(self.op.stores) != max(1, len(self.op.ranges)):
            return False
        if self.op.group_columns:
            return False
        if isinstance(destination.value.owner, AccFetchOp):
            return not self.bodies and not self.op.is_pair
        return _is_single(self.op, destination.value)

    def _graph_of(self, loads: list[Operation], parts: list[Node]) -> str:
        """Return the type that computes several bodies; append the stores of further values to `parts`."""
        fetched = {
            node.second is not None: node.result for node in self.nodes if isinstance(node, AccFetchOp)
        }
        values: list[SSAValue | None] = [
            fetched.get(second) for second in (False, True)[: 1 + self.op.is_pair]
        ]
        values += [op.results[0] for op in loads]
        steps: list[str] = []
        for op, node in self.nodes.items():
            if isinstance(op, ComputeOp):
                inputs = "".join(f", {values.index(v)}" for v in self.inputs(op))
                steps.append(f"mucc::gemm::Step<{node.type}{inputs}>")
                values.append(op.result)
            elif isinstance(op, GroupReduceOp):
                of = f"{REDUCTIONS[op.kind.data]}, {op.width.value.data}, {values.index(op.value)}"
                steps.append(f"mucc::gemm::GroupStep<{of}>")
                values.append(op.result)
        destination = self.op.destination
        stored = values.index(destination.value) if destination is not None else -1
        further: list[str] = []
        for store in self.op.stores:
            match store:
                case AuxStoreOp():
                    parts.append(self._store_matrix(store))
                case GroupStoreOp():
                    parts.append(self._store_groups(store))
                case ReductionNode():
                    parts.append(self._fold(store))
                case _:
                    continue
            further.append(str(values.index(store.value)))
        graph = [str(len(loads)), str(stored), f"cute::seq<{', '.join(further)}>", *steps]
        return self.alias("Work", f"mucc::gemm::Graph<{', '.join(graph)}>").type

    def _fold(self, op: ReductionNode) -> Node:
        axis, memory, batch = self.reduction_of(op)
        kind = REDUCTIONS[op.kind.data]
        prefix, type = {
            1: ("Rows", f"FoldRows<{kind}>"),
            0: ("Cols", f"FoldColumns<{kind}, {self.thread_rows}>"),
            None: ("All", f"FoldAll<{kind}>"),
        }[axis]
        hint = self.hint(prefix, memory.name)
        place, _ = self.tensor(memory, (ZERO, ZERO, batch), axis)
        node = self.alias(hint, f"mucc::gemm::{type}")
        return Node(node.type, f"{{{{{place}.as<float>(), {place}.stride[2]}}}}")

    def _store_matrix(self, op: AuxStoreOp) -> Node:
        return self._matrix(op.destination, "Aux", "Stored<{element}{columns}>")

    def _store_groups(self, op: GroupStoreOp) -> Node:
        memory, strides = self.problem.groups(op.destination)
        hint = self.hint("Groups", memory.name)
        place, _ = self.tensor(memory, strides, 1)
        node = self.alias(hint, f"mucc::gemm::Grouped<{op.width.value.data}>")
        return Node(node.type, f"{{{{{place}.as<float>(), {place}.stride[0], {place}.stride[2]}}}}")

    def load_matrix(self, op: SrcFetchOp | AuxLoadOp) -> Node:
        """Add a load of a whole matrix."""
        node = self._matrix(op.source, "Matrix", f"Matrix<{{element}}, {self.thread_rows}{{columns}}>")
        matrix = self.problem.matrix(op.source)
        self.names[op.result] = matrix.memory.name
        size = dtype_bytes(matrix.memory.type.element_type)
        place, line = self.place(len(self.operands) - 1), 0 if matrix.is_row_major else 1
        strides = f"{place}.stride[{line}] * {size}, {place}.stride[2] * {size}"
        columns = "false" if matrix.is_row_major else "true"
        self.fetched.append(f"{{{place}.data, {strides}, {size}, {columns}, p.m, p.n}}")
        return node

    def _matrix(self, value: SSAValue, prefix: str, type: str) -> Node:
        matrix = self.problem.matrix(value)
        element = CUTLASS_TYPES[matrix.memory.type.dtype]
        columns = "" if matrix.is_row_major else ", true"
        hint = self.hint(prefix, matrix.memory.name)
        place, _ = self.tensor(matrix.memory, matrix.strides, matrix.unit)
        node = self.alias(hint, f"mucc::gemm::{type.format(element=element, columns=columns)}")
        line = 0 if matrix.is_row_major else 1
        batch = "0" if self.op.is_grouped else f"{place}.stride[2]"
        return Node(node.type, f"{{{{{place}.as<{element}>(), {place}.stride[{line}], {batch}}}}}")

    def _range(self, store: MatrixStore) -> str:
        matrix = self.problem.matrix(store.destination)
        assert store.columns is not None
        place, _ = self.tensor(matrix.memory, matrix.strides, matrix.unit)
        low, count = self._columns(store.columns)
        return f"{{{place}.data, {place}.stride[0], {place}.stride[2], {low}, {count}}}"

    def _columns(self, columns: tuple[Dim, Dim]) -> tuple[str, str]:
        """Hand two numbers of columns to the problem, and return where CUTLASS's arguments find them."""
        numbers = [str(self.problem.places.extent(number)) for number in columns]
        place = self.operand(f"{{nullptr, {{{', '.join(numbers)}}}}}")
        return f"int({place}.stride[0])", f"int({place}.stride[1])"

    def _inside(self, op: InsideOp) -> Node:
        """Add a load that says whether columns are in a range."""
        hint = self.hint("Inside", "columns")
        low, count = self._columns(op.range)
        self.names[op.result] = "inside"
        return Node(self.alias(hint, "mucc::gemm::Inside").type, f"{{{{{low}, {count}}}}}")

    def load_by_group(self, op: GroupRowOp | GroupScalarOp) -> Node:
        """Add a load of a row or a number for each group. Raises EmissionError if there are no groups."""
        raise EmissionError(f"{op.name} in an epilogue without groups")

    def _lean_load(self, op: RowBroadcastOp | ColBroadcastOp | ScalarBroadcastOp) -> Node:
        if not isinstance(op.source.type, TensorType):
            hint, place = self.number(op)
            node = self.alias(hint, "mucc::gemm::Scalar<float>")
            return Node(node.type, f"{{{{nullptr, 0, {place}.value}}}}")
        memory = self.problem.strides(op.source)[0]
        self.names[op.result] = memory.name
        element = CUTLASS_TYPES[memory.type.dtype]
        axis = self.problem.axis(op)
        strides = self.vector_strides(op.source, axis)
        prefix = "Row" if axis == 1 else "Col" if axis == 0 else "Scalar"
        hint = self.hint(prefix, memory.name)
        place, _ = self.tensor(memory, strides, axis)
        given = f"{place}.as<{element}>(), {place}.stride[2]"
        match axis:
            case 1:
                type = f"mucc::gemm::Row<{element}, {self.tile[1]}>"
            case 0:
                type = f"mucc::gemm::Column<{element}, {self.thread_rows}>"
            case _:
                type, given = f"mucc::gemm::Scalar<{element}>", f"{given}, {element}(0)"
        return Node(self.alias(hint, type).type, f"{{{{{given}}}}}")
