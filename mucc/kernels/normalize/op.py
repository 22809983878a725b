"""`cutlass.normalize`: the op of a kernel around a chain of reductions, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, Float32Type, IntAttr, StringAttr, f32, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def

from mucc.dialects.cutlass.attributes import dims_attr, dims_of
from mucc.dialects.cutlass.nodes import READS, StoreNode, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.ops.reduction import ReductionAttr
from mucc.dialects.mu.types import Dim, Dims
from mucc.kernels.lowering.access import Axes


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
class NormalizeKernelOp(DeviceKernelOp):
    """Reductions over `axes` of a space, with pointwise work before, between and behind them."""

    name = "cutlass.normalize"

    space = prop_def(ArrayAttr[IntAttr | StringAttr])
    axes = prop_def(DenseArrayBase.constr(i64))

    FORMAT: ClassVar[str] = "$stage `space` $space `axes` $axes $body attr-dict"

    def __init__(self, stage: str, space: Sequence[Dim], axes: Sequence[int], body: Region):
        super().__init__(
            properties={
                "stage": StringAttr(stage),
                "space": dims_attr(space),
                "axes": DenseArrayBase.from_list(i64, list(axes)),
            },
            regions=[body],
        )

    @property
    def extents(self) -> Dims:
        return dims_of(self.space)

    def verify_(self) -> None:
        self.verify_nodes((*READS, RowReduceOp, StoreOp, RowStoreOp))
