"""C++ of reduction kernels (mucc/reduce.cuh)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from mucc.codegen.kernel_code import LightCode
from mucc.codegen.memory import ONE, ZERO, Places
from mucc.codegen.pointwise import THREADS, Operand, Parts, Pointwise
from mucc.codegen.reductions import identity, reduction
from mucc.codegen.texts import INDICES, Entry, Texts
from mucc.kernels.reduce.op import ReduceKernelOp, ReduceStoreOp

_MAX_SHARED_VALUES = 4  # reduce_columns keeps 4 KB of shared memory per value at 8 lanes; 48 KB are static


class ReduceWork(Pointwise):
    """The text of a kernel of mucc/reduce.cuh."""

    def __init__(self, op: ReduceKernelOp, places: Places):
        self.gone = set(op.axes.get_values())
        self.kept = [a for a in range(len(op.extents)) if a not in self.gone]
        self.reduced: list[ReduceStoreOp] = []
        super().__init__(op, op.extents, places)

    def node(self, node: Operation) -> None:
        if isinstance(node, ReduceStoreOp):
            self.store(node, self._reduced_output(node))
            self.reduced.append(node)
        else:
            super().node(node)

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        return [self.kept, sorted(self.gone)]

    def _reduced_output(self, node: ReduceStoreOp) -> Operand:
        operand = self.output(node.destination, tuple(self.space[a] for a in self.kept))
        strides = [ZERO] * len(self.space)
        for axis, stride in zip(self.kept, operand.strides, strict=True):
            strides[axis] = stride
        return Operand(operand.member, operand.memory, strides)

    def texts(self, entry: str) -> Texts:
        """Return the C++ of the kernel in parts."""
        kept, gone = self.merged()
        rank, rows = len(kept) + len(gone), self.runs_fastest(self.gone)
        vector = self.widest if len(self.reduced) <= _MAX_SHARED_VALUES else min(self.widest, 4)
        flags = f"kRows = {_bool(rows)}, kDense = {_bool(self._dense())}"
        return self.assemble(
            Parts(
                fast=rank - 1 if rows else len(kept) - 1,
                constants=[
                    f"static constexpr int kRank = {rank}, kVector = {vector}, kThreads = {THREADS};",
                    f"static constexpr int kKept = {len(kept)};",
                    f"static constexpr bool {flags};",
                ],
                work=[*self._kinds(), *self._functions()],
                entries=_entries(entry, rows),
                launcher="launch_reduce",
                arguments=["fill"],
                host=self._fill(),
                free_outputs=True,
            )
        )

    def _dense(self) -> bool:
        """Whether every output is contiguous f32 in the order of the kept axes: one fill covers it."""
        extents = self.extents
        for output in self.outputs:
            expected = ONE
            for axis in reversed(self.kept):
                if not extents[axis].is_one and output.strides[axis] != expected:
                    return False
                expected = expected * extents[axis]
            if output.memory.type.dtype != "f32":
                return False
        return True

    def _kinds(self) -> list[str]:
        kinds = ", ".join(reduction(node) for node in self.reduced)
        return [f"  using Kinds = mucc::Reductions<{kinds}>;", ""]

    def _functions(self) -> list[str]:
        count = len(self.reduced)
        writes = [
            f"    mucc::reduce<{reduction(node)}>({o.member}, p, result[{k}], shared);"
            for k, (o, node) in enumerate(zip(self.outputs, self.reduced, strict=True))
        ]
        return [
            "  template <int V, class P>",
            f"  MUCC_DEVICE mucc::Values<V, {count}> values(P const& p) const {{",
            *(f"    {s}" for s in self.statements),
            f"    return {{{{{', '.join(self.results)}}}}};",
            "  }",
            "  template <class P>",
            f"  MUCC_DEVICE void store(P const& p, float const (&result)[{count}], bool shared) const {{",
            *writes,
            "  }",
        ]

    def _fill(self) -> list[str]:
        """Return the C++ function that fills outputs with the identity before blocks combine into them."""
        signature = "int fill(mucc::Call const& c, Op const& op, int64_t count)"
        if any(o.memory.type.dtype != "f32" for o in self.outputs):
            unnamed = signature.replace("& c", "&").replace("& op", "&").replace(" count", "")
            return [f"{unnamed} {{ return 0; }}  // blocks share f32 results only", ""]
        fills = " ||\n         ".join(
            f"mucc::fill(c, op.{o.member}.data, {identity(node.kind.data)}, count)"
            for o, node in zip(self.outputs, self.reduced, strict=True)
        )
        return [f"{signature} {{", f"  return {fills};", "}", ""]


def _entries(entry: str, rows: bool) -> list[Entry]:
    given = "Work const op, mucc::Extents<Op::kRank> const extents, {0} rows, {0} length, {0} chunk"
    found: list[Entry] = []
    for name, function in (
        (("warp", "rows<{}, 32>"), ("block", "rows<{}, Op::kThreads>"))
        if rows
        else (("columns", "columns<{}>"),)
    ):
        for width, vector in (("", "1"), ("_vector", "Op::kVector")):
            for suffix, index in INDICES:
                call = f"mucc::reduce_{function.format(vector)}(op, extents, rows, length, chunk)"
                found.append(Entry(f"{entry}_{name}{width}{suffix}", given.format(index), call))
    return found


def _bool(value: bool) -> str:
    return "true" if value else "false"


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
