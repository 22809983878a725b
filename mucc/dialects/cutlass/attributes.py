"""Attributes that kinds of kernels share: lists of extents, requirements on run-time dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from mucc.dialects.mu.types import dims_attr as dims_attr
from mucc.dialects.mu.types import dims_of as dims_of
from mucc.dialects.mu.types import parse_extent, print_extent

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


def parse_dims(parser: AttrParser) -> ArrayAttr[IntAttr | StringAttr]:
    """Parse a list of extents in square brackets."""
    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_extent(parser)))


@irdl_attr_definition
class RequirementAttr(ParametrizedAttribute):
    """A requirement derived by the compiler: `dim` must be a multiple of `multiple`, because of `reason`."""

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
            dim = parse_extent(parser)
            parser.parse_keyword("multiple_of")
            multiple = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            assert isinstance(dim, StringAttr)
            return [dim, IntAttr(multiple), StringAttr(parser.parse_str_literal())]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_extent(printer, self.dim)
            printer.print_string(f" multiple_of {self.multiple.data}, ")
            printer.print_string_literal(self.reason.data)
