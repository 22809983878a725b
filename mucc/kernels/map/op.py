"""`cutlass.map`: the op of a pointwise kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    StringAttr,
)
from xdsl.ir import Region
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
)

from mucc.dialects.cutlass.attributes import dims_attr, dims_of
from mucc.dialects.cutlass.nodes import READS, StoreOp
from mucc.dialects.cutlass.ops import DeviceKernelOp
from mucc.dialects.mu.types import Dim, Dims
from mucc.kernels.map.nodes import ScatterStoreOp, StorePartsOp


@irdl_op_definition
class MapOp(DeviceKernelOp):
    """A pointwise kernel over a space of extents."""

    name = "cutlass.map"

    space = prop_def(ArrayAttr[IntAttr | StringAttr])

    FORMAT: ClassVar[str] = "$stage `space` $space $body attr-dict"

    def __init__(self, stage: str, space: Sequence[Dim], body: Region):
        super().__init__(properties={"stage": StringAttr(stage), "space": dims_attr(space)}, regions=[body])

    @property
    def extents(self) -> Dims:
        return dims_of(self.space)

    def verify_(self) -> None:
        self.verify_nodes((*READS, StoreOp, ScatterStoreOp, StorePartsOp))
