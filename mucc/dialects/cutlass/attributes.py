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
from mucc.library.entries import Guard, Range

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

NO_END = 0
"""The upper end of a range that has none, in attributes."""


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


@irdl_attr_definition
class GuardAttr(ParametrizedAttribute):
    """A box of sizes: `<M to 32, N from 64 to 128>` bounds dims, both ends included."""

    name = "cutlass.guard"

    ranges: ArrayAttr[ArrayAttr[IntAttr | StringAttr]]

    @staticmethod
    def of(guard: Guard) -> GuardAttr:
        found: list[ArrayAttr[IntAttr | StringAttr]] = []
        for r in guard:
            upper = NO_END if r.upper is None else r.upper
            found.append(ArrayAttr([StringAttr(r.dim), IntAttr(r.lower), IntAttr(upper)]))
        return GuardAttr(ArrayAttr(found))

    @property
    def guard(self) -> Guard:
        """The box as ranges of dims."""
        found: list[Range] = []
        for one in self.ranges:
            dim, lower, upper = one.data
            assert isinstance(dim, StringAttr)
            assert isinstance(lower, IntAttr)
            assert isinstance(upper, IntAttr)
            found.append(Range(dim.data, lower.data, None if upper.data == NO_END else upper.data))
        return tuple(found)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def parse_range() -> Range:
            dim = parser.parse_identifier()
            lower = parser.parse_integer() if parser.parse_optional_keyword("from") else 1
            upper = parser.parse_integer() if parser.parse_optional_keyword("to") else None
            return Range(dim, lower, upper)

        ranges = parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parse_range)
        return [GuardAttr.of(tuple(ranges)).ranges]

    def print_parameters(self, printer: Printer) -> None:
        def print_range(r: Range) -> None:
            printer.print_string(r.dim)
            if r.lower > 1:
                printer.print_string(f" from {r.lower}")
            if r.upper is not None:
                printer.print_string(f" to {r.upper}")

        with printer.in_angle_brackets():
            printer.print_list(self.guard, print_range)
