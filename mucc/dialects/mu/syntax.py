"""Assembly formats of operations and attributes, analysed when they are first used.

xDSL's own helpers import its parser and printer and analyse every format when an operation is defined. Most
runs neither parse nor print IR, so the helpers here defer this work.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar, cast, get_args

from xdsl.ir import Data, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import IRDLOperation
from xdsl.utils.str_enum import StrEnum

if TYPE_CHECKING:
    from xdsl.irdl.declarative_assembly_format import FormatProgram
    from xdsl.parser import AttrParser, Parser
    from xdsl.printer import Printer

Word = TypeVar("Word", bound=StrEnum)


class WordAttr(Data[Word], SpacedOpaqueSyntaxAttribute, Generic[Word]):
    """An attribute that is a member of an enum, which a subclass gives as `WordAttr[Enum]`."""

    enum_type: ClassVar[type[StrEnum]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        (cls.enum_type,) = get_args(vars(cls)["__orig_bases__"][0])

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Word:
        return cast(Word, parser.parse_str_enum(cls.enum_type))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_identifier_or_string_literal(self.data.value)


class FormattedOp(IRDLOperation):
    """An operation with the assembly format `FORMAT`, in xDSL's declarative syntax."""

    FORMAT: ClassVar[str]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return _format_program(cls).parse(parser, cls)

    def print(self, printer: Printer) -> None:
        _format_program(type(self)).print(printer, self)


@cache
def _format_program(cls: type[FormattedOp]) -> FormatProgram:
    from xdsl.irdl.declarative_assembly_format import FormatProgram

    return FormatProgram.from_str(cls.FORMAT, cls.get_irdl_definition())
