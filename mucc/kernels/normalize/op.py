"""`cutlass.normalize`: the op of a kernel around a chain of reductions, and its nodes."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import DenseArrayBase, Float32Type, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def

from mucc.dialects.cutlass.nodes import READS, StoreNode, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import ReductionKernelOp
from mucc.dialects.mu.ops.reduction import ReductionAttr
from mucc.dialects.mu.types import Dim
from mucc.kernels.lowering.access import Axes
from mucc.library.extents import multiply

KEPT = 4096
"""Elements of a row that a block has room for in any case."""


@irdl_op_definition
class RowReduceOp(ValueNode):
    """The reduction of a value over the kernel's axes: the same number for all elements of a row."""

    name = "cutlass.row_reduce"

    kind = prop_def(ReductionAttr)
    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$kind $value attr-dict"

    def __init__(self, kind: ReductionAttr, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32], properties={"kind": kind})


@irdl_op_definition
class RowStoreOp(StoreNode):
    """In normalize kernels: a value that is the same for all elements of a row, stored once for each row.

    `axes[i]` is the axis of the kernel's space that walks along axis i of the destination, -1 where the
    extent is 1.
    """

    name = "cutlass.row_store"

    axes = prop_def(DenseArrayBase.constr(i64))

    FORMAT: ClassVar[str] = "$value `,` $destination `axes` $axes attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue, axes: Axes):
        numbers = [-1 if axis is None else axis for axis in axes]
        IRDLOperation.__init__(
            self,
            operands=[value, destination],
            properties={"axes": DenseArrayBase.from_list(i64, numbers)},
        )


@irdl_op_definition
class NormalizeKernelOp(ReductionKernelOp):
    """Reductions over `axes` of a space, with pointwise work before, between and behind them."""

    name = "cutlass.normalize"

    @property
    def length(self) -> Dim:
        """The number of elements of a row."""
        return multiply([self.extents[axis] for axis in self.axes.get_values()])

    @property
    def has_long_rows(self) -> bool:
        """Whether rows may be longer than what a block keeps in registers, so that several blocks share each.

        Elements of such rows are neighbours in memory.
        """
        last = next((a for a in reversed(range(len(self.extents))) if self.extents[a] != 1), None)
        is_inner = last is None or last in self.axes.get_values()
        return is_inner and (isinstance(self.length, str) or self.length > KEPT)

    def verify_(self) -> None:
        self.verify_nodes((*READS, RowReduceOp, StoreOp, RowStoreOp))
