"""`cutlass.reduce`: the op of a reduction kernel, and its nodes."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, f32
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.nodes import READS, StoreNode, ValueNode
from mucc.dialects.cutlass.ops import ReductionKernelOp
from mucc.dialects.mu.ops.reduction import ExtremeAttr, ReductionAttr


class ReducedNode(ValueNode, ABC):
    """A value reduced over the axes of the kernel: one f32 for each element of the kept axes."""

    value = operand_def(Float32Type)


@irdl_op_definition
class ReducedOp(ReducedNode):
    """The sum, product, largest or smallest of the values."""

    name = "cutlass.reduced"

    kind = prop_def(ReductionAttr)

    FORMAT: ClassVar[str] = "$kind $value attr-dict"

    def __init__(self, kind: ReductionAttr, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32], properties={"kind": kind})


@irdl_op_definition
class ArgReducedOp(ReducedNode):
    """The index of the first largest or smallest value along the kernel's only axis: the bits of an s32."""

    name = "cutlass.arg_reduced"

    kind = prop_def(ExtremeAttr)

    FORMAT: ClassVar[str] = "$kind $value attr-dict"

    def __init__(self, kind: ExtremeAttr, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32], properties={"kind": kind})

    @property
    def holds_bits(self) -> bool:
        return True


@irdl_op_definition
class ReduceStoreOp(StoreNode):
    """In reduce kernels: an element of an output, which has the kept axes of the space."""

    name = "cutlass.reduce_store"


@irdl_op_definition
class ReduceKernelOp(ReductionKernelOp):
    """Reductions over `axes` of a space, with pointwise work before, and behind over the kept axes.

    Nodes behind a reduction are of the same space; what they load has extent 1 along `axes`.
    """

    name = "cutlass.reduce"

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes of the space that are not reduced."""
        gone = set(self.axes.get_values())
        return tuple(axis for axis in range(len(self.extents)) if axis not in gone)

    @property
    def reductions(self) -> tuple[ReducedNode, ...]:
        """The nodes that reduce, in order."""
        return tuple(op for op in self.nodes if isinstance(op, ReducedNode))

    def verify_(self) -> None:
        self.verify_nodes((*READS, ReducedNode, ReduceStoreOp))
        if not self.reductions:
            raise VerifyException(f"the {self.name} reduces nothing")
        if len(self.axes) != 1 and any(isinstance(op, ArgReducedOp) for op in self.reductions):
            raise VerifyException(f"a {ArgReducedOp.name} is along one axis, not {len(self.axes)}")
