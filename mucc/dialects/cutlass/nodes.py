"""The nodes inside a device kernel: what is loaded, computed and stored for each element.

A contraction's epilogue is a graph of visitor nodes named after CUTLASS's own; each node's result is
one f32 per element of the tile (bool conditions exist only inside compute bodies).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    Float32Type,
    StringAttr,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.pointwise import S32, ElementwiseOp, ValueConstraint
from mucc.dialects.mu.ops.reduction import ReductionAttr
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import TensorType

if TYPE_CHECKING:
    pass


class LoadNode(FormattedOp, ABC):
    """Reads one f32 per element from a tensor or a run-time scalar."""

    source = operand_def()
    result = result_def(Float32Type)

    FORMAT: ClassVar[str] = "$source attr-dict `:` type($source)"

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue):
        super().__init__(operands=[source], result_types=[f32])


def are_bits(value: SSAValue) -> bool:
    """Whether a number that a map or reduction kernel stores is an s32, as its bits."""
    match op := value.owner:
        case LoadOp():
            return isinstance(op.source.type, TensorType) and op.source.type.dtype == "s32"
        case ComputeOp():
            last = op.body.block.last_op
            return isinstance(last, YieldOp) and isinstance(last.value.owner, BitsOp)
        case _:
            return isinstance(op, BitsOp)


class StoreNode(FormattedOp, ABC):
    """Writes one value per element, or a reduction of them, to a tensor."""

    value = operand_def(Float32Type)
    destination = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue):
        super().__init__(operands=[value, destination])


@irdl_op_definition
class AccFetchOp(FormattedOp):
    """The accumulator (Sm90AccFetch), of a pair the first or `second` one."""

    name = "cutlass.acc_fetch"

    second = opt_prop_def(UnitAttr)
    result = result_def(Float32Type)

    FORMAT: ClassVar[str] = "(`second` $second^)? attr-dict"

    traits = traits_def(Pure())

    def __init__(self, *, second: bool = False):
        super().__init__(result_types=[f32], properties={"second": UnitAttr() if second else None})


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


@irdl_op_definition
class LoadOp(LoadNode):
    """In map and reduce kernels: an element of a tensor, broadcast to the space."""

    name = "cutlass.load"


@irdl_op_definition
class BitsOp(ElementwiseOp):
    """The bits of an f32 as an s32, or back: kernels load, move and store integers of 32 bits so."""

    name = "cutlass.bits"

    operand = operand_def(ValueConstraint)

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[self.infer([operand.type])])

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return f32 if operands[0] == S32 else S32


@irdl_op_definition
class ComputeOp(FormattedOp):
    """A pure function of scalars applied per element (Sm90Compute)."""

    name = "cutlass.compute"

    inputs = var_operand_def(Float32Type)
    body = region_def("single_block")
    result = result_def(Float32Type)

    FORMAT: ClassVar[str] = "$inputs $body attr-dict"

    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], body: Region):
        super().__init__(operands=[list(inputs)], result_types=[f32], regions=[body])

    def verify_(self) -> None:
        if len(self.body.block.args) != len(self.inputs):
            raise VerifyException("one block argument per input")
        for op in self.body.block.ops:
            if not isinstance(op, ElementwiseOp | ConstantOp | YieldOp):
                raise VerifyException(f"{op.name} is not pointwise")


@irdl_op_definition
class YieldOp(FormattedOp):
    """The value of a compute body."""

    name = "cutlass.yield"

    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    traits = traits_def(IsTerminator())

    def __init__(self, value: SSAValue | Operation):
        super().__init__(operands=[SSAValue.get(value)])


@irdl_op_definition
class StoreDOp(StoreNode):
    """The main result D, stored by TMA."""

    name = "cutlass.store_d"


class ScatterNode(StoreNode, ABC):
    """Writes rows of values where `rows`, an s32 tensor, says."""

    value = operand_def(Float32Type)
    destination = operand_def(TensorType)
    rows = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$value `,` $destination `rows` $rows attr-dict `:` type($destination) `,` type($rows)"
    )

    def __init__(self, value: SSAValue, destination: SSAValue, rows: SSAValue):
        IRDLOperation.__init__(self, operands=[value, destination, rows])


@irdl_op_definition
class ScatterDOp(ScatterNode):
    """The main result D of a grouped contraction, each row where `rows` says."""

    name = "cutlass.scatter_d"


@irdl_op_definition
class ScatterStoreOp(ScatterNode):
    """In map kernels: a row of an output, the one that `rows` names for it."""

    name = "cutlass.scatter_store"


@irdl_op_definition
class AuxStoreOp(StoreNode):
    """A further full matrix (Sm90AuxStore)."""

    name = "cutlass.aux_store"


@irdl_op_definition
class StoreOp(StoreNode):
    """In map kernels: an element of an output."""

    name = "cutlass.store"


class Part(StrEnum):
    """A part of an f32: what tf32 holds of it, or what tf32 holds of the rest."""

    HIGH = "high"
    LOW = "low"


PARTS = (Part.LOW, Part.HIGH, Part.HIGH), (Part.HIGH, Part.LOW, Part.HIGH)
"""The parts of A and of B that `tf32x3` multiplies: small products are added up before large ones."""


@irdl_op_definition
class StorePartsOp(StoreNode):
    """In map kernels: parts of an element, along an axis of the output before its last one."""

    name = "cutlass.store_parts"

    parts = prop_def(ArrayAttr[StringAttr])

    FORMAT: ClassVar[str] = "$value `,` $destination `parts` $parts attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue, parts: Sequence[Part]):
        IRDLOperation.__init__(
            self,
            operands=[value, destination],
            properties={"parts": ArrayAttr([StringAttr(p.value) for p in parts])},
        )

    @property
    def kinds(self) -> tuple[Part, ...]:
        return tuple(Part(p.data) for p in self.parts)

    def verify_(self) -> None:
        type = self.destination.type
        assert isinstance(type, TensorType)
        if any(p.data not in set(Part) for p in self.parts):
            raise VerifyException(f"parts are {' and '.join(Part)}")
        if type.rank < 2 or type.dims[-2] != len(self.parts):
            raise VerifyException(f"{len(self.parts)} parts do not fill {type}")


class ReductionNode(StoreNode, ABC):
    kind = prop_def(ReductionAttr)

    FORMAT: ClassVar[str] = "$kind $value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, kind: ReductionAttr, value: SSAValue, destination: SSAValue):
        IRDLOperation.__init__(self, operands=[value, destination], properties={"kind": kind})


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


@irdl_op_definition
class ReduceStoreOp(ReductionNode):
    """In reduce kernels: the reduction of the value over the kernel's axes."""

    name = "cutlass.reduce_store"


GEMM_LOADS = (
    SrcFetchOp,
    AuxLoadOp,
    RowBroadcastOp,
    ColBroadcastOp,
    ScalarBroadcastOp,
    GroupRowOp,
    GroupScalarOp,
)
GEMM_STORES = (StoreDOp, ScatterDOp, AuxStoreOp, RowReductionOp, ColReductionOp, ScalarReductionOp)
GEMM_NODES = (AccFetchOp, ComputeOp, *GEMM_LOADS, *GEMM_STORES)

NODES = (*GEMM_NODES, LoadOp, StoreOp, StorePartsOp, ScatterStoreOp, ReduceStoreOp, YieldOp)
