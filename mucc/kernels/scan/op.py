"""`cutlass.scan`: the op of a scan kernel, and its node."""

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
from mucc.dialects.mu.ops.scan import Scan, ScanAttr
from mucc.dialects.mu.types import Dim


@irdl_op_definition
class RunningOp(ValueNode):
    """The sum or product of a value up to each element of the kernel's axis."""

    name = "cutlass.running"

    value = operand_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[f32])


@irdl_op_definition
class ScanKernelOp(SpaceKernelOp):
    """A scan along `axis` of a space, with pointwise work before and behind it.

    `reverse` and `exclusive` as those of `mu.scan`.
    """

    name = "cutlass.scan"

    kind = prop_def(ScanAttr)
    axis = prop_def(IntegerAttr)
    reverse = opt_prop_def(UnitAttr)
    exclusive = opt_prop_def(UnitAttr)

    FORMAT: ClassVar[str] = (
        "$stage $kind `space` $space `axis` $axis (`reverse` $reverse^)? (`exclusive` $exclusive^)? "
        "$body attr-dict"
    )

    def __init__(
        self,
        stage: str,
        kind: Scan,
        space: Sequence[Dim],
        axis: int,
        body: Region,
        *,
        reverse: bool = False,
        exclusive: bool = False,
    ):
        super().__init__(
            properties={
                "stage": StringAttr(stage),
                "kind": ScanAttr(kind),
                "space": dims_attr(space),
                "axis": IntegerAttr(axis, i64),
                "reverse": UnitAttr() if reverse else None,
                "exclusive": UnitAttr() if exclusive else None,
            },
            regions=[body],
        )

    @property
    def running(self) -> RunningOp:
        """The node that scans."""
        return next(op for op in self.nodes if isinstance(op, RunningOp))

    def verify_(self) -> None:
        self.verify_nodes((*READS, RunningOp, StoreOp))
        if (count := sum(isinstance(op, RunningOp) for op in self.nodes)) != 1:
            raise VerifyException(f"a {self.name} has one {RunningOp.name}, not {count}")
        if not 0 <= self.axis.value.data < len(self.extents):
            raise VerifyException(f"axis {self.axis.value.data} of {len(self.extents)}")
