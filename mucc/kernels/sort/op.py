"""`cutlass.sort`: the op of a sort kernel, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, IntegerAttr, StringAttr, UnitAttr, f32, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.cutlass.attributes import dims_attr
from mucc.dialects.cutlass.nodes import READS, StoreOp, ValueNode
from mucc.dialects.cutlass.ops import SpaceKernelOp
from mucc.dialects.mu.types import Dim


@irdl_op_definition
class SortedOp(ValueNode):
    """A value in the order of the kernel's axis."""

    name = "cutlass.sorted"

    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32])


@irdl_op_definition
class PositionOp(ValueNode):
    """Where along the kernel's axis each sorted value comes from: the bits of an s32."""

    name = "cutlass.position"

    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32])

    @property
    def number(self) -> int:
        return 1

    @property
    def holds_bits(self) -> bool:
        return True


@irdl_op_definition
class SortKernelOp(SpaceKernelOp):
    """Sort along `axis` of a space, with pointwise work before and behind it.

    With `count`, only the first `count` sorted elements of each row are stored.
    """

    name = "cutlass.sort"

    axis = prop_def(IntegerAttr)
    descending = opt_prop_def(UnitAttr)
    count = opt_prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = (
        "$stage `space` $space `axis` $axis (`descending` $descending^)? (`count` $count^)? $body attr-dict"
    )

    def __init__(
        self,
        stage: str,
        space: Sequence[Dim],
        axis: int,
        body: Region,
        *,
        descending: bool = False,
        count: int | None = None,
    ):
        super().__init__(
            properties={
                "stage": StringAttr(stage),
                "space": dims_attr(space),
                "axis": IntegerAttr(axis, i64),
                "descending": UnitAttr() if descending else None,
                "count": None if count is None else IntegerAttr(count, i64),
            },
            regions=[body],
        )

    @property
    def extent(self) -> Dim:
        """How many elements are sorted."""
        return self.extents[self.axis.value.data]

    @property
    def taken(self) -> int | None:
        """How many elements are stored of each row; None for all."""
        return None if self.count is None else self.count.value.data

    @property
    def sorted(self) -> SortedOp:
        """The node that sorts."""
        return next(op for op in self.nodes if isinstance(op, SortedOp))

    @property
    def position(self) -> PositionOp | None:
        """The node that says where sorted values come from, if the kernel has one."""
        return next((op for op in self.nodes if isinstance(op, PositionOp)), None)

    def verify_(self) -> None:
        self.verify_nodes((*READS, SortedOp, PositionOp, StoreOp))
        if (found := sum(isinstance(op, SortedOp) for op in self.nodes)) != 1:
            raise VerifyException(f"a {self.name} has one {SortedOp.name}, not {found}")
        if not 0 <= self.axis.value.data < len(self.extents):
            raise VerifyException(f"axis {self.axis.value.data} of {len(self.extents)}")
        positions = [op for op in self.nodes if isinstance(op, PositionOp)]
        if len(positions) > 1:
            raise VerifyException(f"a {self.name} has at most one {PositionOp.name}, not {len(positions)}")
        if any(op.value is not self.sorted.result for op in positions):
            raise VerifyException(f"a {PositionOp.name} is that of the {SortedOp.name}")
