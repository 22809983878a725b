"""`cutlass.reduce`: the op of a reduction kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Region
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)

from mucc.dialects.cutlass.attributes import dims_attr, dims_of
from mucc.dialects.cutlass.nodes import READS, ReductionNode
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.types import Dim, Dims


@irdl_op_definition
class ReduceStoreOp(ReductionNode):
    """In reduce kernels: the reduction of the value over the kernel's axes."""

    name = "cutlass.reduce_store"


@irdl_op_definition
class ReduceKernelOp(DeviceKernelOp):
    """A reduction over `axes` of a space, with pointwise work before it."""

    name = "cutlass.reduce"

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
        self.verify_nodes((*READS, ReduceStoreOp))
