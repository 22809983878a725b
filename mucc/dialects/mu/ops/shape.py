"""Operations that move elements (reshape, slice, concat, pad, flip, roll), and constant tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, operand_def, prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mucc.dialects.mu import rules, shape_rules
from mucc.dialects.mu.ops.base import InferredOp, Ints, integer, ints
from mucc.dialects.mu.ops.pointwise import ValueConstraint, number
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, GeneratedOp, IndexMapOp, Move, PermuteOp
from mucc.dialects.mu.surface import (
    AXES,
    EXTENT,
    EXTENTS,
    INTS,
    NUMBER,
    VALUES,
    WORD,
    Function,
    Option,
    Parameter,
    X,
    axes,
    bound,
    extents,
    first_line,
    word,
)
from mucc.dialects.mu.surface import integer as one
from mucc.dialects.mu.surface import number as real
from mucc.dialects.mu.syntax import WordAttr
from mucc.dialects.mu.types import (
    DTYPES,
    PACKED,
    STORABLE,
    Dim,
    Dims,
    ElementType,
    Shaped,
    TensorType,
    dims_attr,
    dims_of,
)
from mucc.library.extents import multiply


@irdl_op_definition
class ReshapeOp(InferredOp):
    """The elements in row-major order under other extents, whatever the operand's layout."""

    name = "mu.reshape"

    operand = operand_def(ValueConstraint)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, dims: Dims):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[shape_rules.reshape(value.type, tuple(dims))])

    def inferred(self) -> Attribute:
        return shape_rules.reshape(self.operand.type, Shaped.of(self.result.type).dims)


@irdl_op_definition
class SliceOp(IndexMapOp):
    """Elements `start`, `start + step`, ... before `stop` along one axis."""

    name = "mu.slice"

    axis = prop_def(IntegerAttr)
    bounds = prop_def(ArrayAttr[IntAttr | StringAttr])
    step = prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = (
        "$operand `axis` $axis `bounds` $bounds `step` $step attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue | Operation, axis: int, start: Dim, stop: Dim, step: int = 1):
        value = SSAValue.get(operand)
        result = shape_rules.slice_(value.type, axis, start, stop, step)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={
                "axis": integer(axis % result.rank),
                "bounds": dims_attr((start, stop)),
                "step": integer(step),
            },
        )

    @property
    def range(self) -> tuple[Dim, Dim, int]:
        """Start, stop and step; start and stop may follow from run-time dims."""
        start, stop = dims_of(self.bounds)
        return start, stop, self.step.value.data

    @property
    def moves(self) -> tuple[Move, ...]:
        start, _, step = self.range
        return (Move(self.axis.value.data, ((1, start),), step),)

    def inferred(self) -> Attribute:
        if len(self.bounds) != 2 or self.axis.value.data < 0:
            raise VerifyException("mu.slice: an axis from the front, start and stop")
        return shape_rules.slice_(self.operand.type, self.axis.value.data, *self.range)

    def conditions(self) -> Sequence[str]:
        start, stop, _ = self.range
        extent = Shaped.of(self.operand.type).dims[self.axis.value.data]
        return shape_rules.slice_conditions(extent, start, stop)


@irdl_op_definition
class ConcatOp(InferredOp):
    """Tensors one after the other along an axis."""

    name = "mu.concat"

    axis = prop_def(IntegerAttr)
    inputs = var_operand_def(TensorType)

    FORMAT: ClassVar[str] = "$inputs `axis` $axis attr-dict `:` functional-type(operands, results)"

    def __init__(self, inputs: Sequence[SSAValue | Operation], axis: int):
        values = [SSAValue.get(v) for v in inputs]
        result = shape_rules.concat([v.type for v in values], axis)
        super().__init__(
            operands=[values], result_types=[result], properties={"axis": integer(axis % result.rank)}
        )

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException("mu.concat: the axis must be counted from the front")
        return shape_rules.concat([v.type for v in self.inputs], self.axis.value.data)


class Padding(StrEnum):
    """What padding repeats: a constant, the mirror image, the last element, or the opposite end."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    REPLICATE = "replicate"
    CIRCULAR = "circular"


@irdl_attr_definition
class PaddingAttr(WordAttr[Padding]):
    """The padding mode of `mu.pad`."""

    name = "mu.padding"


@irdl_op_definition
class PadOp(InferredOp):
    """Pad each axis with `low` elements before the first and `high` after the last."""

    name = "mu.pad"

    mode = prop_def(PaddingAttr)
    low = prop_def(Ints)
    high = prop_def(Ints)
    value = prop_def(FloatAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$mode $operand `low` $low `high` $high `value` $value attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        low: Sequence[int],
        high: Sequence[int],
        mode: str = "constant",
        value: float | FloatAttr = 0.0,
    ):
        x = SSAValue.get(operand)
        super().__init__(
            operands=[x],
            result_types=[shape_rules.pad(x.type, low, high, mode)],
            properties={
                "mode": PaddingAttr(Padding(mode)),
                "low": ints(low),
                "high": ints(high),
                "value": number(value),
            },
        )

    def inferred(self) -> Attribute:
        low, high = self.low.get_values(), self.high.get_values()
        return shape_rules.pad(self.operand.type, low, high, self.mode.data.value)

    def conditions(self) -> Sequence[str]:
        dims = Shaped.of(self.operand.type).dims
        sides = zip(dims, self.low.get_values(), self.high.get_values(), strict=True)
        mode = self.mode.data.value
        return [
            condition
            for dim, low, high in sides
            if low or high
            for condition in shape_rules.pad_conditions(dim, low, high, mode)
        ]


@irdl_op_definition
class FlipOp(IndexMapOp):
    """The elements along some axes in reverse order."""

    name = "mu.flip"

    axes = prop_def(Ints)

    FORMAT: ClassVar[str] = "$operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, axes: Sequence[int] | None = None):
        value = SSAValue.get(operand)
        result = shape_rules.alike("flip", value.type)
        positions = rules.normalise_axes(axes, result.rank)
        super().__init__(operands=[value], result_types=[result], properties={"axes": ints(positions)})

    def inferred(self) -> Attribute:
        result = shape_rules.alike("flip", self.operand.type)
        if tuple(self.axes.get_values()) != rules.normalise_axes(self.axes.get_values(), result.rank):
            raise VerifyException("mu.flip: axes must be sorted and counted from the front")
        return result

    @property
    def moves(self) -> tuple[Move, ...]:
        dims = Shaped.of(self.operand.type).dims
        return tuple(Move(axis, ((1, dims[axis]), (-1, 1)), -1) for axis in self.axes.get_values())


@irdl_op_definition
class RollOp(InferredOp):
    """Elements moved along an axis by `shift` places, those that leave it come in at the other end."""

    name = "mu.roll"

    shift = prop_def(IntegerAttr)
    axis = prop_def(IntegerAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$operand `by` $shift `axis` $axis attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue | Operation, shift: int, axis: int):
        value = SSAValue.get(operand)
        result = shape_rules.roll(value.type, shift, axis)
        position = shape_rules.one_axis(axis, result.rank)
        super().__init__(
            operands=[value],
            result_types=[result],
            properties={"shift": integer(shift), "axis": integer(position)},
        )

    def inferred(self) -> Attribute:
        result = shape_rules.roll(self.operand.type, self.shift.value.data, self.axis.value.data)
        if self.axis.value.data != shape_rules.one_axis(self.axis.value.data, result.rank):
            raise VerifyException("mu.roll: the axis must be counted from the front")
        return result

    def conditions(self) -> Sequence[str]:
        extent = Shaped.of(self.operand.type).dims[self.axis.value.data]
        return shape_rules.roll_conditions(extent, self.shift.value.data)


class Triangle(StrEnum):
    """The triangle of a matrix that is kept."""

    LOWER = "lower"
    UPPER = "upper"


@irdl_attr_definition
class TriangleAttr(WordAttr[Triangle]):
    """The triangle of a matrix that `mu.triangle` keeps."""

    name = "mu.triangle"


@irdl_op_definition
class TriangleOp(InferredOp):
    """Keep one triangle of the last two axes, with `diagonal` (0: the main one); the rest is zero."""

    name = "mu.triangle"

    kind = prop_def(TriangleAttr)
    diagonal = prop_def(IntegerAttr)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = (
        "$kind $operand `diagonal` $diagonal attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, kind: str, operand: SSAValue | Operation, diagonal: int = 0):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[shape_rules.alike("a triangle", value.type, 2)],
            properties={"kind": TriangleAttr(Triangle(kind)), "diagonal": integer(diagonal)},
        )

    @property
    def function(self) -> str:
        return "tril" if self.kind.data is Triangle.LOWER else "triu"

    def inferred(self) -> Attribute:
        return shape_rules.alike("a triangle", self.operand.type, 2)


@irdl_op_definition
class IotaOp(GeneratedOp):
    """Each element's number along one axis, from 0, as s32."""

    name = "mu.iota"

    axis = prop_def(IntegerAttr)

    FORMAT: ClassVar[str] = "`axis` $axis attr-dict `:` type($result)"

    def __init__(self, dims: Dims, axis: int):
        result = shape_rules.iota(tuple(dims), axis)
        super().__init__(result_types=[result], properties={"axis": integer(axis % result.rank)})

    def inferred(self) -> Attribute:
        if self.axis.value.data < 0:
            raise VerifyException("mu.iota: the axis must be counted from the front")
        return shape_rules.iota(Shaped.of(self.result.type).dims, self.axis.value.data)


@irdl_op_definition
class FullOp(InferredOp):
    """A tensor with one number everywhere."""

    name = "mu.full"

    value = prop_def(FloatAttr)

    FORMAT: ClassVar[str] = "$value attr-dict `:` type($result)"

    def __init__(self, dims: Dims, value: float | FloatAttr, element_type: ElementType):
        super().__init__(
            result_types=[TensorType.of(tuple(dims), element_type)], properties={"value": number(value)}
        )

    def inferred(self) -> Attribute:
        result = Shaped.of(self.result.type)
        return TensorType.of(result.dims, result.element_type)


OPERATIONS = (
    ReshapeOp,
    SliceOp,
    ConcatOp,
    PadOp,
    FlipOp,
    RollOp,
    TriangleOp,
    IotaOp,
    FullOp,
)
ATTRIBUTES = (PaddingAttr, TriangleAttr)


# The language

Values = Sequence[SSAValue]
Options = dict[str, Option]

_SHAPE = Parameter("shape", EXTENTS)
_DTYPES = ("f32", *(d for d in STORABLE if d != "f32" and d not in PACKED))


def _padded(values: Values, options: Options) -> PadOp:
    """Build a `PadOp` from numbers for the last axes; other axes are not padded."""
    rank = len(Shaped.of(values[0].type).dims)

    def whole(name: str) -> list[int]:
        given = axes(options, name) or ()
        if len(given) > rank:
            raise rules.TypeRuleError("MU1095", f"'{name}' has {len(given)} numbers for {rank} axes")
        return [*[0] * (rank - len(given)), *given]

    return PadOp(
        values[0],
        whole("low"),
        whole("high"),
        word(options, "mode", "constant"),
        real(options, "value", 0.0),
    )


def _triangle(name: str, kind: Triangle) -> Function:
    def build(values: Values, options: Options) -> Operation:
        return TriangleOp(kind, values[0], one(options, "diagonal"))

    doc = f"The {kind.value} triangle of the last two axes, the rest zero; `diagonal` stays"
    return Function(name, (X, Parameter("diagonal", INTS, "0")), doc, build)


def _repeated(values: Values, options: Options) -> Sequence[Operation]:
    """Build views of `[.., N, ..]` as `[.., N, times, ..]`, and of that as `[.., times*N, ..]`."""
    value = shape_rules.tensor("repeat", values[0].type)
    axis = shape_rules.one_axis(one(options, "axis"), len(value.dims))
    times = bound(options, "times")
    before, extent, behind = value.dims[:axis], value.dims[axis], value.dims[axis + 1 :]
    column = ExpandOp(values[0], [axis + 1])
    wide = BroadcastOp(column, (*before, extent, times, *behind))
    return column, wide, ReshapeOp(wide, (*before, multiply((extent, times)), *behind))


def _permuted(values: Values, options: Options) -> PermuteOp:
    shape_rules.tensor("permute", values[0].type)
    return PermuteOp(values[0], axes(options, "order") or ())


def _first_line(cls: type[Operation]) -> str:
    return first_line(cls).rstrip(".")


FUNCTIONS = (
    Function("reshape", (X, _SHAPE), _first_line(ReshapeOp), lambda v, o: ReshapeOp(v[0], extents(o))),
    Function(
        "permute",
        (X, Parameter("order", AXES)),
        _first_line(PermuteOp),
        _permuted,
    ),
    Function(
        "concat",
        (Parameter("x", VALUES), Parameter("axis", AXES)),
        _first_line(ConcatOp),
        lambda v, o: ConcatOp(v, one(o, "axis")),
    ),
    Function(
        "pad",
        (
            X,
            Parameter("low", INTS),
            Parameter("high", INTS),
            Parameter("mode", WORD, "constant", tuple(Padding)),
            Parameter("value", NUMBER, "0"),
        ),
        "Pad the last axes with `low` elements before the first and `high` after the last",
        _padded,
    ),
    Function(
        "flip",
        (X, Parameter("axis", AXES, "all")),
        _first_line(FlipOp),
        lambda v, o: FlipOp(v[0], axes(o)),
    ),
    Function(
        "roll",
        (X, Parameter("shift", INTS), Parameter("axis", AXES)),
        _first_line(RollOp),
        lambda v, o: RollOp(v[0], one(o, "shift"), one(o, "axis")),
    ),
    Function(
        "repeat",
        (X, Parameter("times", EXTENT), Parameter("axis", AXES)),
        "Each element along an axis `times` times in a row; torch's repeat_interleave",
        _repeated,
    ),
    Function(
        "broadcast", (X, _SHAPE), _first_line(BroadcastOp), lambda v, o: BroadcastOp(v[0], tuple(extents(o)))
    ),
    _triangle("tril", Triangle.LOWER),
    _triangle("triu", Triangle.UPPER),
    Function(
        "iota",
        (_SHAPE, Parameter("axis", AXES)),
        _first_line(IotaOp),
        lambda v, o: IotaOp(extents(o), one(o, "axis")),
    ),
    Function(
        "full",
        (_SHAPE, Parameter("value", NUMBER), Parameter("dtype", WORD, "f32", _DTYPES)),
        _first_line(FullOp),
        lambda v, o: FullOp(extents(o), real(o, "value", 0.0), DTYPES[word(o, "dtype", "f32")]),
    ),
)
