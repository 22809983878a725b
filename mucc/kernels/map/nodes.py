"""The nodes that only map kernels have: rows stored by number, elements stored in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.cutlass.nodes import ScatterNode, StoreNode
from mucc.dialects.mu.types import TensorType


@irdl_op_definition
class ScatterStoreOp(ScatterNode):
    """In map kernels: store an element in the row of an output that `rows` gives for its own row."""

    name = "cutlass.scatter_store"


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
