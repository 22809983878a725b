"""`cutlass.map`: the op of a pointwise kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Region
from xdsl.irdl import irdl_op_definition

from mucc.dialects.cutlass.attributes import dims_attr
from mucc.dialects.cutlass.nodes import READS, StoreOp
from mucc.dialects.cutlass.ops import SpaceKernelOp
from mucc.dialects.mu.types import Dim
from mucc.kernels.map.nodes import ScatterStoreOp, StorePartsOp


@irdl_op_definition
class MapOp(SpaceKernelOp):
    """A pointwise kernel over a space of extents."""

    name = "cutlass.map"

    FORMAT: ClassVar[str] = "$stage `space` $space $body attr-dict"

    def __init__(self, stage: str, space: Sequence[Dim], body: Region):
        super().__init__(properties={"stage": StringAttr(stage), "space": dims_attr(space)}, regions=[body])

    def verify_(self) -> None:
        self.verify_nodes((*READS, StoreOp, ScatterStoreOp, StorePartsOp))
