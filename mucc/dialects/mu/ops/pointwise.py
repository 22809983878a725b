"""Base classes of elementwise operations: type rule, syntax, constructors."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    IntegerType,
    StringAttr,
    f64,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    BaseAttr,
    EqAttrConstraint,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import HasCanonicalizationPatternsTrait, Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import rules
from mucc.dialects.mu.ops.base import check_result
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import DTYPES, Dim, Dims, Shaped, TensorType
from mucc.library.extents import ExtentError, canonical

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.pattern_rewriter import RewritePattern
    from xdsl.printer import Printer

ValueConstraint = (
    BaseAttr(TensorType)
    | BaseAttr(Float32Type)
    | BaseAttr(BFloat16Type)
    | BaseAttr(Float16Type)
    | BaseAttr(Float8E4M3FNType)
    | BaseAttr(Float8E5M2Type)
    | BaseAttr(IntegerType)
)
"""A constraint for a tensor or a plain scalar."""


def number(value: float | FloatAttr) -> FloatAttr:
    """Build the attribute of a compile-time number, in double precision."""
    return value if isinstance(value, FloatAttr) else FloatAttr(float(value), f64)


S32 = DTYPES["s32"]


def types_of(values: Sequence[SSAValue]) -> list[Attribute]:
    """Return the types of operands; an extent, or a literal without a fraction, is an s32 next to one."""
    types: list[Attribute] = [v.type for v in values]
    if not any(Shaped.of(t).element_type == S32 for t in types):
        return types
    return [S32 if is_whole(v) else t for v, t in zip(values, types, strict=True)]


def is_whole(value: SSAValue) -> bool:
    """Whether a value is a literal that an s32 holds."""
    if not isinstance(op := value.owner, ConstantOp):
        return isinstance(op, ExtentOp)
    number = op.value.value.data
    return number.is_integer() and -(2**31) <= number < 2**31


class CanonicalizationTrait(HasCanonicalizationPatternsTrait):
    """Canonicalise by `patterns`, which `mucc.dialects.mu.dialect` sets for xDSL's tools."""

    patterns: ClassVar[tuple[RewritePattern, ...]] = ()

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return cls.patterns


class ElementwiseOp(IRDLOperation, ABC):
    """Base of all elementwise operations."""

    SURFACE: ClassVar[str | None] = None
    """The name of the function in the language; None for operators and other syntax."""

    PARAMS: ClassVar[dict[str, float]] = {}
    """Numeric keyword parameters of the function, with their defaults."""

    COMPOSITE: ClassVar[bool] = False
    """Whether `decompose` rewrites the operation into simpler ones."""

    INTEGER: ClassVar[bool] = False
    """Whether the operation computes with integers if all operands are integers; others convert to f32."""

    result = result_def(ValueConstraint)

    traits = traits_def(Pure(), CanonicalizationTrait())

    @classmethod
    def infer(cls, operands: list[Attribute]) -> Attribute:
        """Infer the result type from operand types. Raises TypeRuleError where the operands do not fit."""
        return rules.elementwise(operands, integers=cls.INTEGER)

    @classmethod
    def result_type(cls, values: Sequence[SSAValue]) -> Attribute:
        """Infer the result type from operands. Raises TypeRuleError where they do not fit."""
        return cls.infer(types_of(values))

    @property
    def row_major_type(self) -> TensorType | None:
        """The type of the result if it is a row-major tensor of numbers, not of bools; else None."""
        type = self.result.type
        if not isinstance(type, TensorType) or not type.layout.is_row_major or type.element_type == i1:
            return None
        return type

    def on(self, operands: Sequence[SSAValue], dims: Dims) -> Self:
        """Return the same operation on other operands, with a row-major result of extents `dims`."""
        type = TensorType.of(dims, Shaped.of(self.result.type).element_type)
        made = self.create(operands=operands, result_types=[type], properties=dict(self.properties))
        made.location = self.location
        return made

    @property
    def computes_integers(self) -> bool:
        """Whether the operation computes with 32-bit integers, which wrap around."""
        numbers = [t for t in types_of(self.operands) if Shaped.of(t).element_type != i1]
        return self.INTEGER and rules.promote(numbers, integers=True) == S32

    # One parser and printer for all classes: xDSL would analyse a declarative format for each at every start.

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse `%a, %b {param = 1.0 : f64} : (types) -> type`."""
        place = parser.pos
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        properties = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        operands = parser.resolve_operands(names, type.inputs.data, place)
        return cls.create(operands=operands, result_types=list(type.outputs), properties=properties)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.properties, reserved_attr_names=("relation",))
        printer.print_string(" : ")
        printer.print_operation_type(self)

    def verify_(self) -> None:
        check_result(self, self.result_type(self.operands))


@irdl_op_definition
class ConstantOp(FormattedOp):
    """A compile-time number."""

    name = "mu.constant"

    value = prop_def(FloatAttr)
    result = result_def(Float32Type)

    FORMAT: ClassVar[str] = "$value attr-dict"

    traits = traits_def(Pure())

    def __init__(self, value: float | FloatAttr):
        super().__init__(result_types=[DTYPES["f32"]], properties={"value": number(value)})


@irdl_op_definition
class ExtentOp(FormattedOp):
    """The value of an extent that is known at run time, as a number: `K` in `x / K`.

    `extent` is the canonical text of an extent (`mucc.library.extents`), such as `K` or `M*N-1`. The number
    is an f32; where a kernel computes with integers, it is an s32.
    """

    name = "mu.extent"

    extent = prop_def(StringAttr)
    result = result_def(BaseAttr(Float32Type) | EqAttrConstraint(S32))

    FORMAT: ClassVar[str] = "$extent attr-dict `:` type($result)"

    traits = traits_def(Pure(), CanonicalizationTrait())

    def __init__(self, extent: str, type: Attribute = DTYPES["f32"]):
        super().__init__(result_types=[type], properties={"extent": StringAttr(extent)})

    def verify_(self) -> None:
        try:
            form = canonical(self.extent.data)
        except ExtentError as error:
            raise VerifyException(f"mu.extent: {error}") from None
        if form != self.extent.data:
            raise VerifyException(f"mu.extent: '{self.extent.data}' is written {form}")


def extent_number(extent: Dim) -> ConstantOp | ExtentOp:
    """Build the operation whose value is an extent: a constant where it is a number."""
    return ConstantOp(extent) if isinstance(extent, int) else ExtentOp(extent)


class UnaryOp(ElementwiseOp, ABC):
    """Base of elementwise operations with one operand."""

    operand = operand_def(ValueConstraint)

    def __init__(self, operand: SSAValue | Operation, **params: float | FloatAttr):
        value = SSAValue.get(operand)
        properties = {k: number(params.get(k, default)) for k, default in self.PARAMS.items()}
        super().__init__(operands=[value], result_types=[self.result_type([value])], properties=properties)


class BinaryOp(ElementwiseOp, ABC):
    """Base of elementwise operations with two operands."""

    lhs = operand_def(ValueConstraint)
    rhs = operand_def(ValueConstraint)

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        a, b = SSAValue.get(lhs), SSAValue.get(rhs)
        super().__init__(operands=[a, b], result_types=[self.result_type([a, b])])
