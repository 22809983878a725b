"""View operations: a tensor in another shape or order, without moving elements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from xdsl.dialects.builtin import (
    DenseArrayBase,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mucc.dialects.mu import rules, shape_rules
from mucc.dialects.mu.ops.base import InferredOp, Ints, check_result, ints
from mucc.dialects.mu.ops.pointwise import CanonicalizationTrait, ValueConstraint
from mucc.dialects.mu.syntax import FormattedOp
from mucc.dialects.mu.types import Dim, Dims, LayoutAttr, Shaped, TensorType


@irdl_op_definition
class TransposeOp(FormattedOp):
    """A view with the last two axes swapped (`.T`)."""

    name = "mu.transpose"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure(), CanonicalizationTrait())

    def __init__(self, operand: SSAValue | Operation):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[rules.transpose(value.type)])

    def inferred(self) -> TensorType:
        """Infer the type of the result from that of the operand."""
        return rules.transpose(self.operand.type)

    def verify_(self) -> None:
        check_result(self, self.inferred())


@irdl_op_definition
class ExpandOp(FormattedOp):
    """A view with axes of extent 1 inserted (`v[:, None]`); `axes` are positions in the result."""

    name = "mu.expand"

    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, axes: Sequence[int]):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value],
            result_types=[rules.expand(value.type, axes)],
            properties={"axes": DenseArrayBase.from_list(i64, sorted(axes))},
        )

    def verify_(self) -> None:
        axes = self.axes.get_values()
        rank = len(Shaped.of(self.operand.type).dims) + len(axes)
        if tuple(axes) != rules.normalise_axes(axes, rank):
            raise VerifyException("mu.expand: axes must be sorted and counted from the front")
        check_result(self, rules.expand(self.operand.type, axes))


@irdl_op_definition
class SqueezeOp(FormattedOp):
    """A view without some axes of extent 1 (`x[:, 0]`); `axes` are positions in the operand."""

    name = "mu.squeeze"

    axes = prop_def(DenseArrayBase.constr(i64))
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `axes` $axes attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure(), CanonicalizationTrait())

    def __init__(self, operand: SSAValue | Operation, axes: Sequence[int]):
        value = SSAValue.get(operand)
        positions = rules.normalise_axes(axes, len(Shaped.of(value.type).dims))
        super().__init__(
            operands=[value],
            result_types=[rules.squeeze(value.type, positions)],
            properties={"axes": DenseArrayBase.from_list(i64, positions)},
        )

    def inferred(self) -> TensorType:
        """Infer the type of the result from that of the operand."""
        return rules.squeeze(self.operand.type, self.axes.get_values())

    def verify_(self) -> None:
        axes = self.axes.get_values()
        if tuple(axes) != rules.normalise_axes(axes, len(Shaped.of(self.operand.type).dims)):
            raise VerifyException("mu.squeeze: axes must be sorted and counted from the front")
        check_result(self, self.inferred())


@irdl_op_definition
class BroadcastOp(FormattedOp):
    """A value repeated to the extents of the result."""

    name = "mu.broadcast"

    operand = operand_def(ValueConstraint)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, dims: Dims):
        value = SSAValue.get(operand)
        super().__init__(operands=[value], result_types=[rules.broadcast_to(value.type, dims)])

    def verify_(self) -> None:
        check_result(self, rules.broadcast_to(self.operand.type, Shaped.of(self.result.type).dims))


@irdl_op_definition
class RegroupOp(FormattedOp):
    """A view of a row-major tensor with other extents and the same order of elements: [N, K] as [N, G, 128].

    The program promises that the number of elements is equal. The operand must be in memory.
    """

    name = "mu.regroup"

    operand = operand_def(TensorType)
    result = result_def(TensorType)

    FORMAT: ClassVar[str] = "$operand attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, dims: Dims):
        value = SSAValue.get(operand)
        super().__init__(
            operands=[value], result_types=[TensorType.of(dims, Shaped.of(value.type).element_type)]
        )

    def verify_(self) -> None:
        for type in (self.operand.type, self.result.type):
            if not isinstance(type, TensorType) or not type.layout.is_row_major:
                raise VerifyException(f"mu.regroup: {type} is not row-major")
        if Shaped.of(self.operand.type).element_type != Shaped.of(self.result.type).element_type:
            raise VerifyException("mu.regroup: the dtype stays")


def inverse(order: Sequence[int]) -> list[int]:
    """Return the order that undoes a permutation of axes."""
    return [order.index(axis) for axis in range(len(order))]


@irdl_op_definition
class PermuteOp(InferredOp):
    """The axes in another order: axis i of the result is axis `order[i]`."""

    name = "mu.permute"

    order = prop_def(Ints)
    operand = operand_def(TensorType)

    FORMAT: ClassVar[str] = "$operand `order` $order attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue | Operation, order: Sequence[int]):
        value = SSAValue.get(operand)
        result = shape_rules.permute(value.type, order)
        positions = [axis % result.rank for axis in order]
        super().__init__(operands=[value], result_types=[result], properties={"order": ints(positions)})

    def inferred(self) -> Attribute:
        if any(axis < 0 for axis in self.order.get_values()):
            raise VerifyException("mu.permute: axes must be counted from the front")
        return shape_rules.permute(self.operand.type, self.order.get_values())


class Move(NamedTuple):
    """How an index map reads along one axis: element i is element `start + step * i` of its operand.

    `start` is a sum of multiples of extents. `bounds` are the first index that has an element, and the number
    of such indices; None where all indices have one.
    """

    axis: int
    start: Sequence[tuple[int, Dim]]
    step: int = 1
    bounds: tuple[Dim, Dim] | None = None

    @property
    def is_in_order(self) -> bool:
        """Whether all indices have an element and elements are read in the order in which they lie."""
        return self.bounds is None and self.step >= 1


class IndexMapOp(InferredOp, ABC):
    """Base of views whose elements are some of the operand's, at other indices; read in place by kernels."""

    operand = operand_def(TensorType)

    @property
    @abstractmethod
    def moves(self) -> tuple[Move, ...]:
        """What happens along each axis that the map changes."""

    def verify_(self) -> None:
        """Verify extents and dtype; the layout may be that of the elements in memory."""
        expected, result = Shaped.of(self.inferred()), Shaped.of(self.result.type)
        if expected != result:
            raise VerifyException(f"{self.name}: result type {result} should be {expected}")

    @property
    def layout(self) -> LayoutAttr:
        """The layout of the elements in memory, from that of the operand."""
        type = self.operand.type
        assert isinstance(type, TensorType)
        stepped = {move.axis for move in self.moves if move.step != 1}
        # Where extents of 1 stay so, elements may be adjacent along several axes.
        dims = Shaped.of(self.result.type).dims
        stays = all(new == 1 for old, new in zip(type.dims, dims, strict=True) if old == 1)
        units = {i for i in range(type.rank) if i == type.unit_axis or (stays and type.is_contiguous(i))}
        return LayoutAttr.strided([1 if i in units - stepped else None for i in range(type.rank)])


class GeneratedOp(InferredOp, ABC):
    """Base of tensors whose elements are computed from their indices; kernels compute them where needed."""


AXIS_VIEWS = (TransposeOp, PermuteOp, ExpandOp, SqueezeOp)
"""Views that put axes in another order, or insert and drop axes of extent 1."""

VIEWS = (*AXIS_VIEWS, BroadcastOp, RegroupOp, IndexMapOp)
"""All view operations."""


def views_alike(a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Strip equal views from the ends of two chains of views, and return what remains of each."""
    while a is not b:
        x, y = a.owner, b.owner
        if not isinstance(x, VIEWS) or not isinstance(y, VIEWS):
            break
        if type(x) is not type(y) or x.properties != y.properties:
            break
        if isinstance(x, RegroupOp | IndexMapOp) and a.type != b.type:
            break
        (a,), (b,) = x.operands, y.operands
    return a, b


OPERATIONS = (*AXIS_VIEWS, BroadcastOp, RegroupOp)
