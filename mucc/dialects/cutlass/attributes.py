"""Attributes that kinds of kernels share: lists of extents, requirements on run-time dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu.types import dims_attr as dims_attr
from mucc.dialects.mu.types import dims_of as dims_of
from mucc.dialects.mu.types import parse_extent, print_extent

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer


def parse_dims(parser: AttrParser) -> ArrayAttr[IntAttr | StringAttr]:
    """Parse a list of extents in square brackets."""
    return ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_extent(parser)))


class Bound(StrEnum):
    """How a dim relates to a number: it is a multiple of it, at most or at least that number."""

    MULTIPLE_OF = "multiple_of"
    AT_MOST = "at_most"
    AT_LEAST = "at_least"


_CONDITIONS = {Bound.MULTIPLE_OF: "% {} == 0", Bound.AT_MOST: "<= {}", Bound.AT_LEAST: ">= {}"}


@irdl_attr_definition
class RequirementAttr(ParametrizedAttribute):
    """A requirement derived by the compiler: `dim` must be a multiple of `number`, because of `reason`.

    Or, as `bound` says, at most or at least that number.
    """

    name = "cutlass.requirement"

    dim: StringAttr
    bound: StringAttr
    number: IntAttr
    reason: StringAttr

    @staticmethod
    def of(dim: str, number: int, reason: str, bound: Bound = Bound.MULTIPLE_OF) -> RequirementAttr:
        return RequirementAttr(StringAttr(dim), StringAttr(bound), IntAttr(number), StringAttr(reason))

    def condition(self, dim: str) -> str:
        """Return the condition in C's notation, on a dim of this name."""
        return f"{dim} {_CONDITIONS[Bound(self.bound.data)].format(self.number.data)}"

    def is_stricter(self, other: RequirementAttr) -> bool:
        """Whether the condition leaves fewer dims than another one with the same bound."""
        if self.bound.data == Bound.AT_MOST:
            return self.number.data < other.number.data
        return self.number.data > other.number.data

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dim = parse_extent(parser)
            bound = parser.parse_str_enum(Bound)
            number = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            reason = StringAttr(parser.parse_str_literal())
            assert isinstance(dim, StringAttr)
            return [dim, StringAttr(bound), IntAttr(number), reason]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_extent(printer, self.dim)
            printer.print_string(f" {self.bound.data} {self.number.data}, ")
            printer.print_string_literal(self.reason.data)
