"""C++ of reduction kernels (mucc/reduce.cuh)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from mucc.codegen.across import AcrossWork
from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import ZERO, Places
from mucc.codegen.pointwise import THREADS, Operand, Parts
from mucc.codegen.reductions import reduction
from mucc.codegen.texts import Entry, Texts
from mucc.dialects.cutlass.nodes import are_bits
from mucc.dialects.mu.ops.reduction import Extreme
from mucc.dialects.mu.types import TensorType, dtype_bytes
from mucc.dialects.walk import postorder
from mucc.kernels.reduce.op import ArgReducedOp, ReducedNode, ReducedOp, ReduceKernelOp, ReduceStoreOp
from mucc.library.extents import multiply

_ORDERS = {Extreme.ARGMAX: "Larger", Extreme.ARGMIN: "Smaller"}


class ReduceCode(LightCode):
    """A kernel of mucc/reduce.cuh."""

    HEADER = "mucc/reduce.cuh"
    LAUNCH_HEADER = "mucc/reduce_launch.h"

    def __init__(self, op: ReduceKernelOp, places: Places):
        self.op, self.places = op, places

    def summary(self) -> str:
        axes = list(self.op.axes.get_values())
        return f"reduce of [{', '.join(map(str, self.op.extents))}] over axes {axes}"

    def texts(self, entry: str) -> Texts:
        return ReduceWork(self.op, self.places).texts(entry)


class ReduceWork(AcrossWork):
    """The C++ of a reduction kernel: pointwise work, the reductions, pointwise work behind them."""

    def __init__(self, op: ReduceKernelOp, places: Places):
        self.reduce = op
        self.before = _computing(op.reductions)
        super().__init__(op, op.extents, op.axes.get_values(), places)

    def node(self, node: Operation) -> None:
        if isinstance(node, ReduceStoreOp):
            self.store(node, self._reduced_output(node))
            self.lines[node] = ""
            return
        first = len(self.loads)
        super().node(node)
        if node not in self.before:
            self.loads[first:] = [replace(operand, is_single=True) for operand in self.loads[first:]]

    def _reduced_output(self, node: ReduceStoreOp) -> Operand:
        """Return the output with its strides over the space; it may have the reduced axes, of extent 1."""
        kept, rank = self.reduce.kept, len(self.space)
        assert isinstance(node.destination.type, TensorType)
        axes = kept if node.destination.type.rank == len(kept) else range(rank)
        operand = self.output(node.destination, tuple(self.space[a] for a in axes))
        strides = [ZERO] * rank
        for axis, stride in zip(axes, operand.strides, strict=True):
            strides[axis] = stride
        return replace(operand, strides=strides, is_single=True)

    @property
    def widest(self) -> int:
        """The elements per vector: 16 bytes of the widest tensor that is reduced, at most 8."""
        sizes = (dtype_bytes(o.memory.type.element_type) for o in self.loads if not o.is_single)
        return max((8 if size < 4 else 4 for size in sizes), default=4)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, gone = self.merged()
        rank, rows = len(kept) + len(gone), self.runs_fastest(self.axes)
        words = sum(2 if isinstance(op, ArgReducedOp) else 1 for op in self.reduce.reductions)
        streams = self._streams()
        moving = [o for o in self.loads if not o.is_single and self._moves(o)]
        length = multiply([self.space[axis] for axis in sorted(self.axes)])
        is_shifted = rows and self.is_shifted(length, self.widest, moving)
        return self.assemble(
            Parts(
                fast=rank - 1 if rows else len(kept) - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {self.widest}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)}, kWords = {words}, kStreams = {streams};",
                    f"static constexpr uint32_t kKnown[] = {{{self.known([*kept, *gone])}}};",
                    f"static constexpr bool kRows = {_bool(rows)}, kShifted = {_bool(is_shifted)};",
                ],
                work=self._work(),
                entries=_entries(entry, rows),
                launcher="launch_reduce",
                scratch="reduce_scratch",
                fits="fits_shifted" if is_shifted else "fits",
                spliced=[body.name for body in self.bodies] if self.is_open else (),
            )
        )

    def _streams(self) -> int:
        """Return the number of tensors read along the reduced axes, or of reduced values if it is larger."""
        moving = [o for o in self.loads if not o.is_single and self._moves(o)]
        return max(len(moving), len({op.value for op in self.reduce.reductions}))

    def _moves(self, operand: Operand) -> bool:
        """Whether different elements of an operand are reduced to a result."""
        return any(not operand.strides[axis].is_zero for axis in self.axes)

    def _work(self) -> list[str]:
        reductions = self.reduce.reductions
        kinds = ", ".join(map(_accumulator, reductions))
        values = ", ".join(self.lanes[op.value] for op in reductions)
        results = [
            f"    mucc::Lanes<V> const {self.lanes[op.result]}(result[{k}]);"
            for k, op in enumerate(reductions)
        ]
        count = len(reductions)
        return [
            f"  using Kinds = mucc::Reductions<{kinds}>;",
            "",
            "  template <int V, class P>",
            f"  MUCC_DEVICE mucc::Values<V, {count}> values(P const& p) const {{",
            *self.statements_for([op.value for op in reductions]),
            f"    return {{{{{values}}}}};",
            "  }",
            "  template <class P>",
            f"  MUCC_DEVICE void store(P const& p, float const (&result)[{count}]) const {{",
            "    constexpr int V = 1;",
            *results,
            *self.storing,
            "  }",
        ]


def _bool(value: bool) -> str:
    return str(value).lower()


def _computing(reductions: Collection[ReducedNode]) -> set[Operation]:
    """Return the nodes from which reduced values are computed."""

    def operands(op: Operation) -> list[Operation]:
        return [v.owner for v in op.operands if isinstance(v.owner, Operation) and _is_node(v)]

    found: dict[Operation, None] = {}
    for op in reductions:
        found |= dict.fromkeys(postorder(op, operands, found))
    return set(found)


def _is_node(value: SSAValue) -> bool:
    """Whether a value is computed or loaded in a kernel, not a tensor of the program."""
    return not isinstance(value.type, TensorType)


def _accumulator(op: ReducedNode) -> str:
    """Return the C++ type of what accumulates a reduction."""
    match op:
        case ReducedOp():
            return f"mucc::Folded<{reduction(op.kind.data, op.value)}>"
        case ArgReducedOp():
            return f"mucc::Indexed<mucc::{'Integer' if are_bits(op.value) else ''}{_ORDERS[op.kind.data]}>"
        case _:
            raise AssertionError(f"{op.name} in a reduction kernel")


def _entries(entry: str, rows: bool) -> list[Entry]:
    """Return the kernels in the order of `launch_reduce`: by how a result is shared, then step and index."""
    given = "Work const op, mucc::Extents<Op::kRank> const extents, mucc::ReduceShape const shape"
    steps = (
        ("", "1, uint32_t", "1, false"),
        ("_vector", "Op::kVector, uint32_t", "Op::kVector, false"),
        ("_wide", "1, uint64_t", "1, true"),
    )
    return [
        Entry(
            f"{entry}_{name}{suffix}",
            given,
            f"mucc::reduce_{name}<{step}>(op, extents, shape)",
            when=f"mucc::may_reduce<Op>({_bool(name != 'warps')}, {taken})",
        )
        for name in (("warps", "rows") if rows else ("columns",))
        for suffix, step, taken in steps
    ]
