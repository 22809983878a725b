"""The nodes of an epilogue, a graph of visitors that are named after CUTLASS's own."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntAttr, IntegerAttr, StringAttr, UnitAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.nodes import LoadNode, ReductionNode, ScatterNode, StoreNode, ValueNode
from mucc.dialects.mu.ops.base import integer
from mucc.dialects.mu.ops.reduction import ReductionAttr
from mucc.dialects.mu.types import Dim, Shaped, dim_attr

TAKES_INTEGERS = False
"""Whether an epilogue computes with integers, as bodies of other kernels do: its values are f32."""


@irdl_op_definition
class AccFetchOp(ValueNode):
    """The accumulator (Sm90AccFetch), of a pair the first or `second` one."""

    name = "cutlass.acc_fetch"

    second = opt_prop_def(UnitAttr)

    FORMAT: ClassVar[str] = "(`second` $second^)? attr-dict"

    def __init__(self, *, second: bool = False):
        super().__init__(result_types=[f32], properties={"second": UnitAttr() if second else None})

    @property
    def number(self) -> int:
        return int(self.second is not None)


@irdl_op_definition
class GroupReduceOp(ValueNode):
    """Reduce each group of `width` neighbouring columns; all elements of a group have its result."""

    name = "cutlass.group_reduce"

    kind = prop_def(ReductionAttr)
    width = prop_def(IntegerAttr)
    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$kind $value `width` $width attr-dict"

    def __init__(self, kind: ReductionAttr, value: SSAValue, width: int):
        super().__init__(
            operands=[value], result_types=[f32], properties={"kind": kind, "width": integer(width)}
        )

    def verify_(self) -> None:
        if self.width.value.data < 2:
            raise VerifyException("a group has two columns or more")


@irdl_op_definition
class SrcFetchOp(LoadNode):
    """The source matrix C, loaded by TMA beside the output tiles (Sm90SrcFetch)."""

    name = "cutlass.src_fetch"


@irdl_op_definition
class AuxLoadOp(LoadNode):
    """A further full matrix (Sm90AuxLoad)."""

    name = "cutlass.aux_load"


@irdl_op_definition
class RowBroadcastOp(LoadNode):
    """A vector along N, the same for every row (Sm90RowBroadcast)."""

    name = "cutlass.row_broadcast"


@irdl_op_definition
class ColBroadcastOp(LoadNode):
    """A vector along M, the same for every column (Sm90ColBroadcast)."""

    name = "cutlass.col_broadcast"


@irdl_op_definition
class ScalarBroadcastOp(LoadNode):
    """One number for the whole matrix: a run-time scalar, a rank-0 tensor, or one per batch."""

    name = "cutlass.scalar_broadcast"


@irdl_op_definition
class GroupRowOp(LoadNode):
    """Of a grouped contraction a vector along N for each group, [groups, N]."""

    name = "cutlass.group_row"


@irdl_op_definition
class GroupScalarOp(LoadNode):
    """Of a grouped contraction a number for each group."""

    name = "cutlass.group_scalar"


class MatrixStore(StoreNode, ABC):
    """Store a full matrix or, where `low` is given, the columns from that one on which it has room for."""

    low = opt_prop_def(IntAttr | StringAttr)

    FORMAT: ClassVar[str] = "$value `,` $destination (`from` $low^)? attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue, low: Dim | None = None):
        IRDLOperation.__init__(
            self,
            operands=[value, destination],
            properties={"low": None if low is None else dim_attr(low)},
        )

    @property
    def columns(self) -> tuple[Dim, Dim] | None:
        """The first column that is stored, and how many are; None where all are."""
        return None if self.low is None else (self.low.data, Shaped.of(self.destination.type).dims[-1])


@irdl_op_definition
class StoreDOp(MatrixStore):
    """The main result D, stored by TMA."""

    name = "cutlass.store_d"


@irdl_op_definition
class ScatterDOp(ScatterNode):
    """The main result D of a grouped contraction, each row where `rows` says."""

    name = "cutlass.scatter_d"


@irdl_op_definition
class AuxStoreOp(MatrixStore):
    """A further full matrix (Sm90AuxStore)."""

    name = "cutlass.aux_store"


@irdl_op_definition
class GroupStoreOp(StoreNode):
    """Store one value for each group of `width` neighbouring columns, of which all elements have it."""

    name = "cutlass.group_store"

    width = prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = "$value `,` $destination `width` $width attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue, width: int):
        IRDLOperation.__init__(self, operands=[value, destination], properties={"width": integer(width)})


@irdl_op_definition
class RowReductionOp(ReductionNode):
    """Reduce over M into a vector along N (Sm90RowReduction)."""

    name = "cutlass.row_reduction"


@irdl_op_definition
class ColReductionOp(ReductionNode):
    """Reduce over N into a vector along M (Sm90ColReduction)."""

    name = "cutlass.col_reduction"


@irdl_op_definition
class ScalarReductionOp(ReductionNode):
    """Reduce over M and N into one number, per batch or over all batches (Sm90ScalarReduction)."""

    name = "cutlass.scalar_reduction"


LOADS = (
    SrcFetchOp,
    AuxLoadOp,
    RowBroadcastOp,
    ColBroadcastOp,
    ScalarBroadcastOp,
    GroupRowOp,
    GroupScalarOp,
)
STORES = (
    StoreDOp,
    ScatterDOp,
    AuxStoreOp,
    GroupStoreOp,
    RowReductionOp,
    ColReductionOp,
    ScalarReductionOp,
)
NODES = (AccFetchOp, GroupReduceOp, *LOADS, *STORES)
