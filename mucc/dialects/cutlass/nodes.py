"""Nodes inside a device kernel: loads, computation and stores for each element.

The base classes are for all kinds of kernels; each kind adds nodes of its own, such as those of CUTLASS's
epilogue visitor trees in gemm. A node's result is one f32 per element of the kernel's space. Bools and
integers exist only inside compute bodies.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    Float32Type,
    IntAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu.ops.base import integer
from mucc.dialects.mu.ops.elementwise import ConstantOp
from mucc.dialects.mu.ops.pointwise import S32, ElementwiseOp, ValueConstraint
from mucc.dialects.mu.ops.reduction import ReductionAttr
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dim, Dims, Shaped, TensorType, dim_attr, dims_attr


class LoadNode(FormattedOp, ABC):
    """Load one f32 per element from a tensor or a run-time scalar."""

    source = operand_def()
    result = result_def(Float32Type)

    FORMAT: ClassVar[str] = "$source attr-dict `:` type($source)"

    traits = traits_def(Pure())

    def __init__(self, source: SSAValue):
        super().__init__(operands=[source], result_types=[f32])


def are_bits(value: SSAValue) -> bool:
    """Whether a stored f32 holds the bits of an s32 (see `BitsOp`)."""
    match op := value.owner:
        case LoadOp():
            return Shaped.of(op.source.type).element_type == S32
        case ComputeOp():
            last = op.body.block.last_op
            return isinstance(last, YieldOp) and isinstance(last.value.owner, BitsOp)
        case ValueNode():
            return op.holds_bits
        case _:
            return isinstance(op, BitsOp)


class StoreNode(FormattedOp, ABC):
    """Store one value per element, or a reduction of the values, to a tensor."""

    value = operand_def(Float32Type)
    destination = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, value: SSAValue, destination: SSAValue):
        super().__init__(operands=[value, destination])

    @property
    def rounds(self) -> bool:
        """Whether the program itself rounds the value to the destination's dtype, stored or not."""
        return "rounds" in self.attributes

    def note_rounding(self) -> None:
        """Note that the store is the program's own rounding of the value."""
        self.attributes["rounds"] = UnitAttr()


class ValueNode(FormattedOp, ABC):
    """A value per element that the kernel itself computes, such as an accumulator or a running sum."""

    result = result_def(Float32Type)

    traits = traits_def(Pure())

    @property
    def holds_bits(self) -> bool:
        """Whether the value is the bits of an s32 (see `are_bits`): by default as the operand is."""
        return bool(self.operands) and are_bits(self.operands[0])

    @property
    def number(self) -> int:
        """The position among the kernel's value nodes, which compute bodies take in order, before loads."""
        return 0


@irdl_op_definition
class LoadOp(LoadNode):
    """Load the element of a tensor that broadcasts to each point of the space of a map or reduce kernel."""

    name = "cutlass.load"


@irdl_op_definition
class IndexOp(ValueNode):
    """The index of an element along an axis of the kernel's space: the bits of an s32."""

    name = "cutlass.index"

    axis = prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = "$axis attr-dict"

    def __init__(self, axis: int):
        super().__init__(result_types=[f32], properties={"axis": integer(axis)})

    @property
    def holds_bits(self) -> bool:
        return True


@irdl_op_definition
class InsideOp(ValueNode):
    """1 where the index along an axis is one of `count` from `low` on, else 0; without an axis it is 0."""

    name = "cutlass.inside"

    axis = opt_prop_def(IntegerAttr)
    low = prop_def(IntAttr | StringAttr)
    count = prop_def(IntAttr | StringAttr)

    FORMAT: ClassVar[str] = "(`axis` $axis^)? `from` $low `count` $count attr-dict"

    def __init__(self, axis: int | None, low: Dim, count: Dim):
        super().__init__(
            result_types=[f32],
            properties={
                "axis": None if axis is None else integer(axis),
                "low": dim_attr(low),
                "count": dim_attr(count),
            },
        )

    @property
    def range(self) -> tuple[Dim, Dim]:
        """The first index, and the number of indices."""
        return self.low.data, self.count.data


@irdl_op_definition
class RandomNode(ValueNode):
    """A uniform number from 0 to below 1 for each element of a tensor of `dims`, drawn with a seed.

    `axes[i]` is the axis of the kernel's space that walks along axis i of the tensor, -1 where the index is
    0. The seed is an s32 by its bits, or the number `literal`.
    """

    name = "cutlass.random"

    seed = opt_operand_def(Float32Type)
    literal = opt_prop_def(IntegerAttr)
    stream = prop_def(IntegerAttr)
    dims = prop_def(ArrayAttr[IntAttr | StringAttr])
    axes = prop_def(DenseArrayBase.constr(i64))

    FORMAT: ClassVar[str] = (
        "($seed^)? (`literal` $literal^)? `stream` $stream `of` $dims `axes` $axes attr-dict"
    )

    def __init__(self, seed: SSAValue | int, stream: int, dims: Dims, axes: Sequence[int | None]):
        is_literal = isinstance(seed, int)
        super().__init__(
            operands=[[] if is_literal else [seed]],
            result_types=[f32],
            properties={
                "literal": integer(seed) if is_literal else None,
                "stream": integer(stream),
                "dims": dims_attr(dims),
                "axes": DenseArrayBase.from_list(i64, [-1 if axis is None else axis for axis in axes]),
            },
        )

    @property
    def holds_bits(self) -> bool:
        return False


@irdl_op_definition
class BitsOp(ElementwiseOp):
    """Reinterpret the bits of an f32 as an s32, or back.

    Values between nodes are f32, so kernels load, pass and store s32 elements as f32 with the same bits.
    """

    name = "cutlass.bits"

    operand = operand_def(ValueConstraint)

    def __init__(self, operand: SSAValue):
        super().__init__(operands=[operand], result_types=[self.infer([operand.type])])

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        return f32 if operands[0] == S32 else S32


@irdl_op_definition
class ComputeOp(FormattedOp):
    """Apply a pure function of scalars to each element (CUTLASS: `Sm90Compute`)."""

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
    """Store each row of values to the row of `destination` whose index is in `rows`, an s32 tensor."""

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
    """Store an element of an output of a map kernel.

    Where `axis` and `low` are given, the kernel's space is a part of the output, from that index along that
    axis of the output on.
    """

    name = "cutlass.store"

    axis = opt_prop_def(IntegerAttr)
    low = opt_prop_def(IntAttr | StringAttr)

    FORMAT: ClassVar[str] = (
        "$value `,` $destination (`axis` $axis^)? (`from` $low^)? attr-dict `:` type($destination)"
    )

    def __init__(self, value: SSAValue, destination: SSAValue, part: tuple[int, Dim] | None = None):
        axis, low = part if part is not None else (None, None)
        IRDLOperation.__init__(
            self,
            operands=[value, destination],
            properties={
                "axis": None if axis is None else integer(axis),
                "low": None if low is None else dim_attr(low),
            },
        )

    @property
    def part(self) -> tuple[int, Dim] | None:
        """The axis of the output along which a part is stored, and its first index; None for all of it."""
        return None if self.axis is None or self.low is None else (self.axis.value.data, self.low.data)


class ReductionNode(StoreNode, ABC):
    """Store a reduction of the values."""

    kind = prop_def(ReductionAttr)

    FORMAT: ClassVar[str] = "$kind $value `,` $destination attr-dict `:` type($destination)"

    def __init__(self, kind: ReductionAttr, value: SSAValue, destination: SSAValue):
        IRDLOperation.__init__(self, operands=[value, destination], properties={"kind": kind})


READS = (LoadOp, IndexOp, InsideOp, RandomNode)
"""The nodes by which kernels over a space of elements get the values of each element."""

NODES = (*READS, StoreOp, ComputeOp, BitsOp, YieldOp)
"""The nodes that several kinds of kernels use."""
