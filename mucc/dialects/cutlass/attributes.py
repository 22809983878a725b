"""Attributes of the `cutlass` dialect: the shape of a problem, promises that the compiler derived."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from mucc.dialects.mu.types import Dim, Dims, parse_extent

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


def dims_of(attr: ArrayAttr[IntAttr | StringAttr]) -> Dims:
    return tuple(d.data for d in attr)


def dims_attr(dims: Sequence[Dim]) -> ArrayAttr[IntAttr | StringAttr]:
    return ArrayAttr([IntAttr(d) if isinstance(d, int) else StringAttr(d) for d in dims])


def _parse_dims(parser: AttrParser) -> ArrayAttr[IntAttr | StringAttr]:
    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_extent(parser)))


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
            parts = [_parse_dims(parser)]
            for _ in range(3):
                parser.parse_punctuation(",")
                parts.append(_parse_dims(parser))
        return parts

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            text = ", ".join(f"[{', '.join(str(d) for d in part)}]" for part in self.extents)
            printer.print_string(text)


@irdl_attr_definition
class RequirementAttr(ParametrizedAttribute):
    """A promise that the compiler derived: `dim` is a multiple of `multiple`, because of `reason`."""

    name = "cutlass.requirement"

    dim: StringAttr
    multiple: IntAttr
    reason: StringAttr

    @staticmethod
    def of(dim: str, multiple: int, reason: str) -> RequirementAttr:
        return RequirementAttr(StringAttr(dim), IntAttr(multiple), StringAttr(reason))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dim = parser.parse_identifier()
            parser.parse_keyword("multiple_of")
            multiple = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            return [StringAttr(dim), IntAttr(multiple), StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.dim.data} multiple_of {self.multiple.data}, ")
            printer.print_string_literal(self.reason.data)
