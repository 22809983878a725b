"""The nodes inside a device kernel: what is loaded, computed and stored for each element.

A contraction's epilogue is a graph of visitor nodes named after CUTLASS's own; each node's result is
one f32 per element of the tile (bool conditions exist only inside compute bodies).
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    Float32Type,
    f32,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

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
        case ValueNode() if op.operands:
            return are_bits(op.operands[0])
        case _:
            return isinstance(op, BitsOp)


class StoreNode(FormattedOp, ABC):
    """Writes one value per element, or a reduction of them, to a tensor."""

    value = operand_def(Float32Type)
    destination = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue):
        super().__init__(operands=[value, destination])


class ValueNode(FormattedOp, ABC):
    """A value for each element that the kernel computes across elements: an accumulator, a running sum."""

    result = result_def(Float32Type)

    traits = traits_def(Pure())

    @property
    def number(self) -> int:
        """Its place among several such values: bodies take them in this order, before what is loaded."""
        return 0


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
class StoreOp(StoreNode):
    """In map kernels: an element of an output."""

    name = "cutlass.store"


class ReductionNode(StoreNode, ABC):
    kind = prop_def(ReductionAttr)

    FORMAT: ClassVar[str] = "$kind $value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, kind: ReductionAttr, value: SSAValue, destination: SSAValue):
        IRDLOperation.__init__(self, operands=[value, destination], properties={"kind": kind})


NODES = (LoadOp, StoreOp, ComputeOp, BitsOp, YieldOp)
"""The nodes that kernels of several kinds have."""
