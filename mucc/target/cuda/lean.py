"""The epilogue of a contraction by mucc's own collective, which compiles in half the time of CUTLASS's.

It stores one matrix, computed by one body from the accumulator, rows, columns and numbers. Whatever
else an epilogue does is left to CUTLASS (see `graph`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from xdsl.ir import Operation

from mucc.dialects.cutlass.nodes import (
    AccFetchOp,
    AuxLoadOp,
    ColBroadcastOp,
    ComputeOp,
    GroupRowOp,
    GroupScalarOp,
    RowBroadcastOp,
    ScalarBroadcastOp,
    SrcFetchOp,
    StoreDOp,
)
from mucc.dialects.cutlass.ops import GemmOp
from mucc.dialects.mu.ops.contraction import Compute
from mucc.dialects.mu.schedule import Mainloop
from mucc.dialects.mu.types import TensorType
from mucc.target.cuda.graph import Epilogue, Matrix, Node, ordered
from mucc.target.cuda.memory import CUTLASS_TYPES, EmissionError

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
    nodes = list(op.nodes)
    bodies = [node for node in nodes if isinstance(node, ComputeOp)]
    stored = [node for node in nodes if isinstance(node, StoreDOp)]
    if op.epilogue is not None or d is None or len(bodies) > 1 or len(stored) != 1:
        return False
    if not all(isinstance(node, _NODES) for node in nodes):
        return False
    if tile[1] % _COLUMNS or not (op.is_pair or _is_fast(op, d, tile, mainloop)):
        return False
    (store,) = stored
    body = store.value.owner
    if isinstance(body, ComputeOp):
        readers = {use.operation for node in nodes for result in node.results for use in result.uses}
        accumulators = sum(isinstance(v.owner, AccFetchOp) for v in body.inputs)
        return readers == {body, store} and accumulators == 1 + op.is_pair
    return isinstance(body, AccFetchOp) and not bodies and not op.is_pair


def _is_fast(op: GemmOp, d: Matrix, tile: tuple[int, ...], mainloop: Mainloop) -> bool:
    if d.memory.type.dtype not in ("bf16", "f16") or op.compute.data in (Compute.S8, Compute.U8):
        return False
    return tile[0] in _FAST.get(mainloop, ())


@dataclass
class LeanEpilogue(Epilogue):
    """What the text of such an epilogue is made of; `tile` is the output tile of so many `warpgroups`."""

    warpgroups: int = 1
    tile: tuple[int, ...] = ()

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
                case GroupRowOp() | GroupScalarOp():
                    loads[op] = self.nodes[op] = self.load_by_group(op)
                case ComputeOp():
                    self.body(op)
                case _:
                    continue
        if not self.bodies:
            self.passing_body("acc")
        types = ["TileShape", str(self.warpgroups), "ElementD", "StrideD", self.bodies[0].name]
        types += [node.type for node in loads.values()]
        arguments = ", ".join(node.arguments for node in loads.values())
        self.root = Node(f"mucc::gemm::{self.template}<{', '.join(types)}>", f"{{{arguments}}}")
        return self

    @property
    def template(self) -> str:
        """The collective's name in mucc::gemm."""
        return "PairEpilogue" if self.op.is_pair else "Epilogue"

    @property
    def thread_rows(self) -> int:
        """Rows of a tile of which a thread holds elements."""
        return 2 * self.tile[0] // (_ROWS * self.warpgroups)

    def load_matrix(self, op: SrcFetchOp | AuxLoadOp) -> Node:
        """A whole matrix. Raises EmissionError where the collective reads none."""
        raise EmissionError(f"{op.name} in an epilogue without matrices")

    def load_by_group(self, op: GroupRowOp | GroupScalarOp) -> Node:
        """A row or a number for each group. Raises EmissionError where there are no groups."""
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
