"""Emit kernels that compute a value across elements, with pointwise work before it and behind it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.ir import Operation, SSAValue

from mucc.codegen.memory import ONE, ZERO, Places, Product
from mucc.codegen.pointwise import Operand, Pointwise
from mucc.dialects.cutlass.nodes import READS, ValueNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.types import PACKED, Dim, Dims
from mucc.dialects.walk import postorder


class AcrossWork(Pointwise):
    """Builder of a kernel over a space whose value nodes are computed along `axes` of it."""

    def __init__(self, op: DeviceKernelOp, space: Dims, axes: Collection[int], places: Places):
        self.axes = axes
        self.lines: dict[Operation, str] = {}
        self.read: dict[Operation, list[Operand]] = {}
        super().__init__(op, space, places)

    def node(self, node: Operation) -> None:
        before, loads = len(self.statements), len(self.loads)
        if is_across(node):
            self.lanes[node.results[0]] = self.namer(f"{node.name.rpartition('.')[2]}_v")
        else:
            super().node(node)
        self.lines[node] = "\n".join(self.statements[before:])
        self.read[node] = self.loads[loads:]

    @property
    def groups(self) -> Sequence[Sequence[int]]:
        return [[a for a in range(len(self.space)) if a not in self.axes], sorted(self.axes)]

    @property
    def is_open(self) -> bool:
        """Whether the number of elements that values are computed across is known at launches only."""
        return not all(isinstance(self.space[axis], int) for axis in self.axes)

    def is_shifted(self, length: Dim, vector: int, operands: Sequence[Operand]) -> bool:
        """Whether rows of a known length lie one behind the other, and are no whole number of vectors.

        `operands` are those that have elements of their own within a row.
        """
        kept, gone = self.merged()
        if len(kept) != 1 or len(gone) != 1 or not gone[0] or not isinstance(length, int):
            return False
        axes = [*kept, *gone]
        wanted = [Product(length) if kept[0] else ZERO, ONE]
        return length % vector != 0 and all(
            not (o.bounds or o.rows or o.member in self.pairs or o.memory.type.dtype in PACKED)
            and self._merged_strides(o, axes) == wanted
            for o in operands
            if self._counted(o.member, axes) is None
        )

    def statements_for(self, wanted: Sequence[SSAValue]) -> list[str]:
        """Return the C++ statements that compute `wanted` from loads and value nodes."""
        return [f"    {self.lines[op]}" for op in self.nodes_for(wanted) if self.lines[op]]

    def nodes_for(self, wanted: Sequence[SSAValue]) -> list[Operation]:
        """Return the nodes that compute `wanted`, in order, back to loads and value nodes."""

        def operands(op: Operation) -> list[Operation]:
            inputs = () if is_across(op) else op.operands
            return [v.owner for v in inputs if isinstance(v.owner, Operation) and v.owner in self.lines]

        found: dict[Operation, None] = {}
        for value in wanted:
            if isinstance(value.owner, Operation):
                found |= dict.fromkeys(postorder(value.owner, operands))
        return [op for op in self.lines if op in found]

    @property
    def storing(self) -> list[str]:
        """The C++ statements that compute what the kernel stores from value nodes, and store it."""
        stores = [
            f"    mucc::store({output.member}, p, {result});"
            for output, result in zip(self.outputs, self.results, strict=True)
        ]
        return [*self.statements_for([store.value for store in self.op.stores]), *stores]

    def values_and_store(self, value: SSAValue, results: Sequence[SSAValue | None]) -> list[str]:
        """Return the C++ of `values`, which computes `value`, and of `store`, which is given `results`.

        None stands for a result that no node reads: its parameter has no name.
        """
        names = ["" if result is None else self.lanes[result] for result in results]
        given = ", ".join(f"mucc::Lanes<V> const& {name}".rstrip() for name in names)
        return [
            "  template <int V, class P>",
            "  MUCC_DEVICE mucc::Lanes<V> values(P const& p) const {",
            *self.statements_for([value]),
            f"    return {self.lanes[value]};",
            "  }",
            "  template <int V, class P>",
            f"  MUCC_DEVICE void store(P const& p, {given}) const {{",
            *self.storing,
            "  }",
        ]

    def loads_for(self, wanted: Sequence[SSAValue]) -> list[Operand]:
        """Return the tensors that are read to compute `wanted`."""
        return [operand for op in self.nodes_for(wanted) for operand in self.read.get(op, ())]


def is_across(node: Operation) -> bool:
    """Whether a node's value is computed from those of other elements."""
    return isinstance(node, ValueNode) and not isinstance(node, READS)
