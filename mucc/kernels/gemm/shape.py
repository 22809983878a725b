"""The shape of a contraction as an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from mucc.dialects.cutlass.attributes import dims_attr, dims_of, parse_dims
from mucc.dialects.mu.types import Dim, Dims

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


@irdl_attr_definition
class GemmShapeAttr(ParametrizedAttribute):
    """The problem M x N x K x L of a contraction; each is a product of extents.

    `#cutlass.shape<[B, M], [N], [K], []>`: the rows of B matrices taken as one, no batch.
    """

    name = "cutlass.shape"

    m: ArrayAttr[IntAttr | StringAttr]
    n: ArrayAttr[IntAttr | StringAttr]
    k: ArrayAttr[IntAttr | StringAttr]
    batch: ArrayAttr[IntAttr | StringAttr]

    @staticmethod
    def of(m: Sequence[Dim], n: Sequence[Dim], k: Sequence[Dim], batch: Sequence[Dim]) -> GemmShapeAttr:
        return GemmShapeAttr(dims_attr(m), dims_attr(n), dims_attr(k), dims_attr(batch))

    @property
    def extents(self) -> tuple[Dims, Dims, Dims, Dims]:
        """The factors of M, N, K and L."""
        return dims_of(self.m), dims_of(self.n), dims_of(self.k), dims_of(self.batch)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parts = [parse_dims(parser)]
            for _ in range(3):
                parser.parse_punctuation(",")
                parts.append(parse_dims(parser))
        return parts

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            text = ", ".join(f"[{', '.join(str(d) for d in part)}]" for part in self.extents)
            printer.print_string(text)
