"""Sums of products that broadcast against each other, as products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import ComputeAttr, MatmulOp
from mucc.dialects.mu.ops.reduction import ReduceOp, Reduction
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, PermuteOp, TransposeOp
from mucc.dialects.mu.shape_rules import elements
from mucc.dialects.mu.types import WIDE, Dim, Dims, Shaped, dtype_name
from mucc.dialects.rewriting import Emit
from mucc.library.extents import multiply

FLOATS = ("bf16", "f16", "f32", "e4m3", "e5m2")


def _dims(value: SSAValue) -> Dims:
    return Shaped.of(value.type).dims


def _element(value: SSAValue) -> Attribute:
    return Shaped.of(value.type).element_type


@dataclass(frozen=True)
class Factor:
    """A value behind its views, with the axis of the product that each axis of the value becomes."""

    value: SSAValue
    places: tuple[int, ...]
    casts: tuple[Attribute, ...] = ()
    """What it is converted to, in order."""

    @staticmethod
    def of(value: SSAValue, rank: int) -> Factor:
        """Return what is behind the views and casts of a factor of a product of `rank` axes."""
        places = list(range(rank))[rank - len(_dims(value)) :]
        casts: list[Attribute] = []
        while True:
            match owner := value.owner:
                case e.CastOp():
                    casts.insert(0, owner.element_type)
                case BroadcastOp():
                    places = places[len(places) - len(_dims(owner.operand)) :]
                case ExpandOp():
                    added = owner.axes.get_values()
                    places = [place for n, place in enumerate(places) if n not in added]
                case TransposeOp():
                    places[-2:] = reversed(places[-2:])
                case PermuteOp():
                    old = places.copy()
                    for n, axis in enumerate(owner.order.get_values()):
                        places[axis] = old[n]
                case _:
                    return Factor(value, tuple(places), tuple(casts))
            value = owner.operand

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the factor varies."""
        return frozenset(place for dim, place in zip(_dims(self.value), self.places, strict=True) if dim != 1)

    def arranged(self, emit: Emit, wanted: Sequence[int]) -> SSAValue:
        """Permute and expand the factor to these axes of the product; axes that it lacks have extent 1."""
        value, places = self.value, list(self.places)
        for dtype in self.casts:
            value = emit(e.CastOp(value, dtype))
        if any(place not in wanted for place in places):
            kept = [n for n, place in enumerate(places) if place in wanted]
            value = emit(ReshapeOp(value, tuple(_dims(value)[n] for n in kept)))
            places = [places[n] for n in kept]
        order = [places.index(place) for place in wanted if place in places]
        last = len(order) - 1
        if order == [*range(last - 1), last, last - 1]:
            value = emit(TransposeOp(value))
        elif order != [*range(len(order))]:
            value = emit(PermuteOp(value, order))
        missing = [n for n, place in enumerate(wanted) if place not in places]
        if missing and places:  # a number broadcasts as it is
            value = emit(ExpandOp(value, missing))
        return value


@dataclass
class Group:
    """Factors that are multiplied element by element, and form one operand."""

    axes: frozenset[int]
    factors: list[Factor] = field(default_factory=list[Factor])

    def operand(self, emit: Emit, wanted: Sequence[int], summed: frozenset[int]) -> SSAValue:
        """Return the operand with these axes in f32; other axes of it that are summed are summed first."""
        lone = sorted(self.axes & summed - {*wanted})
        if len(self.factors) == 1 and not lone:
            return _as_f32(emit, self.factors[0].arranged(emit, wanted))
        places = sorted(self.axes)
        value, *others = (_as_f32(emit, f.arranged(emit, places)) for f in self.factors)
        for other in others:
            value = emit(e.MulOp(value, other))
        if lone:
            value = emit(ReduceOp("sum", value, [places.index(axis) for axis in lone]))
            places = [place for place in places if place not in lone]
        return Factor(value, tuple(places)).arranged(emit, wanted)


def _as_f32(emit: Emit, value: SSAValue) -> SSAValue:
    return value if _element(value) == f32 else emit(e.CastOp(value, f32))


@dataclass(frozen=True)
class BroadcastSum:
    """A sum of products of two groups of factors; `outer` and `divisors` do not change along the sum."""

    op: ReduceOp
    dims: Dims
    left: Group
    right: Group
    outer: tuple[Factor, ...]
    divisors: tuple[Factor, ...]

    @staticmethod
    def of(op: ReduceOp, any_use: bool = False, dtypes: Sequence[str] = FLOATS) -> BroadcastSum | None:
        """Return the sum of products that a reduction computes; None if it computes another.

        Without `any_use`, None also if other operations read the product of its factors.
        """
        if op.kind.data not in (Reduction.SUM, Reduction.MEAN):
            return None
        dims, summed = _dims(op.operand), frozenset(op.axes.get_values())
        factors, divisors = _taken_apart(op.operand, summed, any_use)
        outer = [f for f in factors if not f.axes & summed]
        groups: list[Group] = []
        for factor in sorted((f for f in factors if f.axes & summed), key=lambda f: -len(f.axes)):
            group = next((g for g in groups if factor.axes <= g.axes), None)
            if group is None:
                groups.append(group := Group(factor.axes))
            group.factors.append(factor)
        if len(groups) != 2 or any(dtype_name(_element(f.value)) not in dtypes for f in factors):
            return None
        left, right = sorted(groups, key=lambda g: max(g.axes - summed, default=-1))
        found = BroadcastSum(op, dims, left, right, tuple(outer), tuple(divisors))
        return found if found._contracts() else None

    def _contracts(self) -> bool:
        """Whether there are rows, columns and an inner extent, and each axis is one of a factor."""
        axes = frozenset(
            chain(*(f.axes for f in (*self.outer, *self.divisors)), self.left.axes, self.right.axes)
        )
        whole = all(dim == 1 or axis in axes for axis, dim in enumerate(self.dims))
        inner = [self.dims[axis] for axis in self.inner]
        fixed = len(inner) == 1 or elements(inner) is not None
        return whole and fixed and all((self.inner, self.rows, self.columns))

    @property
    def summed(self) -> frozenset[int]:
        return frozenset(self.op.axes.get_values())

    @property
    def count(self) -> Dim:
        """The number of products that are summed."""
        return multiply([self.dims[axis] for axis in self.summed])

    @property
    def inner(self) -> list[int]:
        """The axes of K."""
        return sorted(self.left.axes & self.right.axes & self.summed)

    @property
    def rows(self) -> list[int]:
        """The axes that only the left operand has, and that stay."""
        return sorted(self.left.axes - self.right.axes - self.summed)

    @property
    def columns(self) -> list[int]:
        """The axes that only the right operand has, and that stay."""
        return sorted(self.right.axes - self.left.axes - self.summed)

    def least(self) -> int | None:
        """Return the least of the numbers of rows, columns and terms, among those that are known."""
        sides = (self.rows, self.columns, self.inner)
        counts = [elements([self.dims[axis] for axis in axes]) for axes in sides]
        return min((count for count in counts if count is not None), default=None)

    def contraction(self, emit: Emit, compute: ComputeAttr) -> None:
        """Append the operations that compute the sum as a product of matrices, the result last.

        Raises TypeRuleError where no views make an operand of a factor.
        """
        row, column = self.rows[-1], self.columns[-1]
        shared = (self.left.axes & self.right.axes) - self.summed
        lead = sorted((shared | {*self.rows, *self.columns}) - {row, column})
        lhs = self.left.operand(emit, [*lead, row, *self.inner], self.summed)
        rhs = self.right.operand(emit, [*lead, *self.inner, column], self.summed)
        if len(self.inner) > 1:
            count = elements([self.dims[axis] for axis in self.inner])
            assert count is not None
            heads: list[Dim] = [*_dims(lhs)[: len(lead) + 1]]
            lhs = emit(ReshapeOp(lhs, (*heads, count)))
            rhs = emit(ReshapeOp(rhs, (*_dims(rhs)[: len(lead)], count, _dims(rhs)[-1])))
        product = emit(MatmulOp(lhs, rhs, compute))
        kept = [axis for axis in range(len(self.dims)) if axis not in self.summed]
        value = Factor(product, (*lead, row, column)).arranged(emit, kept)
        for factor in self.outer:
            value = emit(e.MulOp(value, factor.arranged(emit, kept)))
        for factor in self.divisors:
            value = emit(e.DivOp(value, factor.arranged(emit, kept)))
        if self.op.kind.data is Reduction.MEAN:
            value = emit.divided(value, self.count)
        if value.type != self.op.result.type:
            value = emit(e.CastOp(value, f32))  # the view of a product is no row-major result


def _taken_apart(value: SSAValue, summed: frozenset[int], any_use: bool) -> tuple[list[Factor], list[Factor]]:
    """Split a product into factors and divisors. A quotient whose divisor is summed over is a factor."""
    rank = len(_dims(value))
    factors: list[Factor] = []
    divisors: list[Factor] = []
    pending = [value]
    while pending:
        value = pending.pop()
        owner = value.owner
        if not any_use and not value.has_one_use():
            factors.append(Factor.of(value, rank))
            continue
        match owner:
            case e.MulOp() if _element(value) in WIDE:
                pending += (owner.rhs, owner.lhs)
            case e.DivOp() if not (divisor := Factor.of(owner.rhs, rank)).axes & summed:
                divisors.append(divisor)
                pending.append(owner.lhs)
            case _:
                factors.append(Factor.of(value, rank))
    return factors, divisors
