"""Types and attributes of the `mu` dialect: ranked tensors with symbolic extents and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    IntAttr,
    IntegerType,
    Signedness,
    StringAttr,
    bf16,
    f16,
    f32,
    i1,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from mucc.library.extents import Dim as Dim
from mucc.library.extents import ExtentError, canonical, is_derived

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

Dims = tuple[Dim, ...]

ElementType = BFloat16Type | Float8E4M3FNType | Float8E5M2Type | Float16Type | Float32Type | IntegerType

_MEMORY: dict[str, tuple[ElementType, int]] = {
    "bf16": (bf16, 16),
    "f16": (f16, 16),
    "f32": (f32, 32),
    "e4m3": (Float8E4M3FNType(), 8),
    "e5m2": (Float8E5M2Type(), 8),
    "s8": (IntegerType(8, Signedness.SIGNED), 8),
    "u8": (IntegerType(8, Signedness.UNSIGNED), 8),
    "s32": (IntegerType(32, Signedness.SIGNED), 32),
    "s4": (IntegerType(4, Signedness.SIGNED), 4),
    "u4": (IntegerType(4, Signedness.UNSIGNED), 4),
}
"""The dtypes of tensors in memory: MLIR type and bits of each, by its name in the language."""

DTYPES: dict[str, ElementType] = {**{name: type for name, (type, _) in _MEMORY.items()}, "bool": i1}
"""The type of every dtype by its name in the language; `bool` exists inside expressions only."""

STORABLE = tuple(_MEMORY)
"""The dtypes that a tensor in memory may have."""

PACKED = ("s4", "u4")
"""The dtypes with two elements per byte, the first in the low half. Only parameters have these dtypes."""

WIDE = (bf16, f16, f32)
"""The dtypes of arithmetic; values of other dtypes are converted to f32."""

_NAMES: dict[Attribute, str] = {t: n for n, t in DTYPES.items()}
_BITS: dict[Attribute, int] = dict(_MEMORY.values())


def dtype_name(element_type: Attribute) -> str:
    """Return a dtype's name in the language, for example `bf16`."""
    return _NAMES.get(element_type) or str(element_type)


def dtype_bits(element_type: Attribute) -> int:
    """Return the bits of one element in memory. Raises KeyError for a bool."""
    return _BITS[element_type]


def dtype_bytes(element_type: Attribute) -> int:
    """Return the bytes of one element in memory, 1 for packed elements. Raises KeyError for a bool."""
    return -(-_BITS[element_type] // 8)


def is_packed(element_type: Attribute) -> bool:
    """Whether two elements are packed into each byte."""
    return dtype_name(element_type) in PACKED


_SPARSE = ("bf16", "f16", "f32", "e4m3", "e5m2", "s8", "u8")
SPARSE_TYPES: tuple[Attribute, ...] = tuple(_MEMORY[name][0] for name in _SPARSE)
"""The dtypes that a sparse matrix may have."""


def sparse_unit(element_type: Attribute) -> int:
    """Return the divisor of a sparse matrix's number of columns: stored rows are multiples of 16 bytes."""
    return 32 // dtype_bytes(element_type)


def sparse_problem(dims: Dims, element_type: Attribute, inner: int = 1) -> str | None:
    """Explain why a tensor with the 2:4 pattern along axis `inner` cannot be sparse; None if it can."""
    if len(dims) != 2:
        return f"a sparse tensor has two axes, not {len(dims)}"
    if element_type not in SPARSE_TYPES:
        return f"a sparse matrix cannot hold {dtype_name(element_type)}"
    rows, columns = dims[1 - inner], dims[inner]
    if isinstance(columns, int) and columns % sparse_unit(element_type):
        return (
            f"the columns of a sparse {dtype_name(element_type)} matrix are a multiple of "
            f"{sparse_unit(element_type)}, not {columns}"
        )
    if rows == 1:
        return "a sparse matrix has more than one row"
    return None


def dims_of(attr: ArrayAttr[IntAttr | StringAttr]) -> Dims:
    """Convert a list of extents to Python values."""
    return tuple(d.data for d in attr)


def dims_attr(dims: Sequence[Dim]) -> ArrayAttr[IntAttr | StringAttr]:
    """Convert extents to an attribute."""
    return ArrayAttr([IntAttr(d) if isinstance(d, int) else StringAttr(d) for d in dims])


def dim_attr(dim: Dim) -> IntAttr | StringAttr:
    """Wrap an extent."""
    return IntAttr(dim) if isinstance(dim, int) else StringAttr(dim)


def parse_extent(parser: AttrParser) -> IntAttr | StringAttr:
    """Parse a number, a name, or in quotes arithmetic on dims such as `"2*N"`."""
    if (value := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return IntAttr(value)
    if (text := parser.parse_optional_str_literal()) is not None:
        try:
            return dims_attr([canonical(text)]).data[0]
        except ExtentError as error:
            parser.raise_error(str(error))
    return StringAttr(parser.parse_identifier(" or integer extent"))


_PADDED = ("padded", "padded_columns")
"""The kinds of layouts with padded rows or columns."""


def print_extent(printer: Printer, extent: Attribute) -> None:
    match extent:
        case IntAttr():
            printer.print_string(str(extent.data))
        case StringAttr() if is_derived(extent.data):
            printer.print_string_literal(extent.data)
        case StringAttr():
            printer.print_string(extent.data)
        case _:
            raise VerifyException(f"not an extent: {extent}")


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """The layout of a tensor in memory.

    `row_major` and `col_major` are contiguous (`col_major` swaps the last two axes); `strides` gives one
    stride per axis in elements, `_` for a run-time stride. `padded(n)` and `padded_columns(n)` are row-major
    and column-major with rows or columns padded to a multiple of n elements, for tensors in the workspace
    only. `sparse` is a matrix with the 2:4 pattern along its rows, stored as its non-zero values and metadata
    with their positions; `sparse_turned` is the transposed view of a sparse matrix.
    """

    name = "mu.layout"

    kind: StringAttr
    strides: ArrayAttr[IntAttr | StringAttr]

    @staticmethod
    @cache
    def row_major() -> LayoutAttr:
        return LayoutAttr(StringAttr("row_major"), ArrayAttr([]))

    @staticmethod
    @cache
    def col_major() -> LayoutAttr:
        return LayoutAttr(StringAttr("col_major"), ArrayAttr([]))

    @staticmethod
    @cache
    def sparse() -> LayoutAttr:
        return LayoutAttr(StringAttr("sparse"), ArrayAttr([]))

    @staticmethod
    def strided(strides: Sequence[int | None]) -> LayoutAttr:
        """Build a layout from strides in elements; None is a run-time stride."""
        return LayoutAttr(
            StringAttr("strides"), ArrayAttr([StringAttr("_") if s is None else IntAttr(s) for s in strides])
        )

    @staticmethod
    def padded(multiple: int) -> LayoutAttr:
        """Build a row-major layout with rows padded to a multiple of `multiple` elements."""
        return LayoutAttr(StringAttr("padded"), ArrayAttr([IntAttr(multiple)]))

    @property
    def padding(self) -> int:
        """The number of elements to a multiple of which rows are padded; 1 without padding."""
        return (self.stride_values[0] or 1) if self.kind.data in _PADDED else 1

    @property
    def is_row_major(self) -> bool:
        return self.kind.data == "row_major"

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is stored without its zeros (2:4 pattern)."""
        return self.kind.data in ("sparse", "sparse_turned")

    @property
    def stride_values(self) -> tuple[int | None, ...]:
        """The strides of a `strides` layout in elements, None for run-time ones."""
        return tuple(s.data if isinstance(s, IntAttr) else None for s in self.strides)

    @property
    def is_known(self) -> bool:
        """Whether all strides follow from shape and layout, without run-time values."""
        return None not in self.stride_values

    def unit_axis(self, rank: int) -> int | None:
        """Return the axis with stride 1; None without one."""
        match self.kind.data:
            case "row_major" | "padded" | "sparse":
                return rank - 1 if rank else None
            case "col_major" | "padded_columns" | "sparse_turned":
                return rank - 2
            case _:
                units = [i for i, s in enumerate(self.stride_values) if s == 1]
                return units[-1] if units else None

    def transposed(self, rank: int) -> LayoutAttr:
        """Return the layout of the view with the last two axes swapped."""
        match self.kind.data:
            case "row_major":
                return LayoutAttr.col_major()
            case "col_major":
                return LayoutAttr.row_major()
            case "padded":
                return LayoutAttr(StringAttr("padded_columns"), self.strides)
            case "padded_columns":
                return LayoutAttr(StringAttr("padded"), self.strides)
            case "sparse":
                return LayoutAttr(StringAttr("sparse_turned"), ArrayAttr([]))
            case "sparse_turned":
                return LayoutAttr.sparse()
            case _:
                s = self.stride_values
                return LayoutAttr.strided((*s[: rank - 2], s[rank - 1], s[rank - 2]))

    def squeezed(self, rank: int, axes: Sequence[int]) -> LayoutAttr:
        """Return the layout of the view without some axes of extent 1."""
        if self.kind.data == "strides":
            return LayoutAttr.strided([s for i, s in enumerate(self.stride_values) if i not in axes])
        is_turned = self.unit_axis(rank) == rank - 2
        return self.transposed(rank) if is_turned and {rank - 2, rank - 1} & set(axes) else self

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return cls.parse_body(parser).parameters

    @staticmethod
    def parse_body(parser: AttrParser) -> LayoutAttr:
        kind = parser.parse_identifier(" layout")
        if kind not in ("strides", *_PADDED):
            return LayoutAttr(StringAttr(kind), ArrayAttr([]))
        strides = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_extent(parser), " strides"
        )
        return LayoutAttr(StringAttr(kind), ArrayAttr(strides))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_body(printer)

    def print_body(self, printer: Printer) -> None:
        printer.print_string(str(self))

    def __str__(self) -> str:
        if not self.strides.data:
            return self.kind.data
        return f"{self.kind.data}({', '.join('_' if s is None else str(s) for s in self.stride_values)})"

    def verify(self) -> None:
        if self.kind.data not in ("row_major", "col_major", "strides", "sparse", "sparse_turned", *_PADDED):
            raise VerifyException(
                f"unknown layout '{self.kind.data}', expected row_major, col_major, strides(...) or sparse"
            )
        if self.kind.data in _PADDED and (len(self.strides) != 1 or None in self.stride_values):
            raise VerifyException(f"{self.kind.data} takes the number of elements that rows are padded to")


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """A tensor with symbolic extents, a dtype and a layout: `!mu.tensor<[M, 4096], bf16>`."""

    name = "mu.tensor"

    shape: ArrayAttr[IntAttr | StringAttr]
    element_type: Attribute
    layout: LayoutAttr

    @staticmethod
    def of(dims: Sequence[Dim], element_type: Attribute, layout: LayoutAttr | None = None) -> TensorType:
        """Build a type from plain Python extents; the layout is row-major when left out."""
        return _tensor_type(tuple(dims), element_type, layout or LayoutAttr.row_major())

    @property
    def dims(self) -> Dims:
        return tuple(d.data for d in self.shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        """The dtype's name in the language."""
        return dtype_name(self.element_type)

    @property
    def bits_per_element(self) -> int | float:
        """Bits of memory for each element; of sparse matrices half of the values, and 1 bit (f32: 2) of
        metadata for each element, whose padding is left out."""
        bits = dtype_bits(self.element_type)
        return bits / 2 + (2 if bits == 32 else 1) if self.is_sparse else bits

    @property
    def unit_axis(self) -> int | None:
        """The axis with stride 1; None without one."""
        return self.layout.unit_axis(self.rank)

    def is_contiguous(self, axis: int) -> bool:
        """Whether elements are adjacent in memory along an axis.

        In `[K, 1]` they are adjacent along both axes: inner axes of extent 1 do not separate elements.
        """
        order = list(range(self.rank))
        match self.layout.kind.data:
            case "row_major":
                pass
            case "col_major":
                order[-2:] = order[-1], order[-2]
            case "strides":
                return self.layout.stride_values[axis] == 1
            case _:
                return axis == self.unit_axis
        return all(self.dims[closer] == 1 for closer in order[order.index(axis) + 1 :])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_extent(parser), " in tensor shape"
            )
            parser.parse_punctuation(",")
            element_type = parser.parse_type()
            layout = LayoutAttr.row_major()
            if parser.parse_optional_punctuation(","):
                layout = LayoutAttr.parse_body(parser)
        return [ArrayAttr(shape), element_type, layout]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            with printer.in_square_brackets():
                printer.print_list(self.shape, lambda d: print_extent(printer, d))
            printer.print_string(", ")
            printer.print_attribute(self.element_type)
            if not self.layout.is_row_major:
                printer.print_string(", ")
                self.layout.print_body(printer)

    def __str__(self) -> str:
        """Print the type in the syntax of `.mcu`."""
        text = f"{self.dtype}[{', '.join(str(d) for d in self.dims)}]"
        if self.layout.is_row_major:
            return text
        return f"{text} {'sparse' if self.is_sparse else self.layout}"

    @property
    def is_sparse(self) -> bool:
        """Whether the tensor is a matrix stored without its zeros (2:4 pattern)."""
        return self.layout.is_sparse

    def verify(self) -> None:
        if self.element_type not in _NAMES:
            raise VerifyException(f"unsupported element type {self.element_type}")
        if any(isinstance(d, int) and d < 1 for d in self.dims):
            raise VerifyException("extents must be at least 1")
        if self.layout.kind.data in ("col_major", "padded_columns") and self.rank < 2:
            raise VerifyException(f"{self.layout.kind.data} needs at least two axes")
        if self.is_sparse and (problem := sparse_problem(self.dims, self.element_type, self.unit_axis or 0)):
            raise VerifyException(problem)
        if self.layout.kind.data == "strides" and len(self.layout.strides) != self.rank:
            raise VerifyException(f"{len(self.layout.strides)} strides given for {self.rank} axes")


@cache
def _tensor_type(dims: Dims, element_type: Attribute, layout: LayoutAttr) -> TensorType:
    return TensorType(dims_attr(dims), element_type, layout)


class Shaped(NamedTuple):
    """The extents and the dtype of a value, scalar or tensor, as type rules use them."""

    dims: Dims
    element_type: Attribute

    @staticmethod
    def of(type: Attribute) -> Shaped:
        """Convert a `mu.tensor` or a scalar type."""
        if isinstance(type, TensorType):
            return Shaped(type.dims, type.element_type)
        return Shaped((), type)

    def __str__(self) -> str:
        return f"{dtype_name(self.element_type)}[{', '.join(str(d) for d in self.dims)}]"
