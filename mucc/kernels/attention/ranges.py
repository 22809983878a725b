"""Masks that leave each row a range of columns, or columns with its own label; kernels skip the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mucc.dialects.cutlass.nodes import BitsOp, IndexOp, LoadOp
from mucc.dialects.mu.ops.elementwise import (
    AddOp,
    AndOp,
    CastOp,
    CmpOp,
    ConstantOp,
    ElementwiseOp,
    ExpOp,
    MaxOp,
    MinOp,
    MulOp,
    NegOp,
    NotOp,
    OrOp,
    SelectOp,
    SigmoidOp,
    SubOp,
)
from mucc.dialects.mu.ops.pointwise import S32
from mucc.dialects.mu.rules import HALVES
from mucc.dialects.mu.types import Shaped
from mucc.kernels.lowering.bodies import Body

LARGEST = 1 << 24
"""The magnitude up to which constants, which are f32, are integers one by one."""

_NEGATED = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "ne": "eq"}
_TURNED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


@dataclass(frozen=True)
class Linear:
    """An integer: a multiple of the column and one of the row, further integers added or not, a number."""

    column: int = 0
    row: int = 0
    terms: tuple[tuple[int, SSAValue], ...] = ()
    number: int = 0

    def plus(self, other: Linear, sign: int) -> Linear:
        """Return the sum, or with a sign of -1 the difference."""
        terms = (*self.terms, *((sign * s, v) for s, v in other.terms))
        return Linear(
            self.column + sign * other.column,
            self.row + sign * other.row,
            terms,
            self.number + sign * other.number,
        )


class Limit(NamedTuple):
    """The smallest or largest one of some integers, which do not fall from one row to the next."""

    is_least: bool
    of: tuple[Linear | Limit, ...]


class Seen(NamedTuple):
    """The columns that a row sees: from `first` to `last`, where there are such."""

    first: Linear | Limit | None = None
    last: Linear | Limit | None = None

    def both(self, other: Seen) -> Seen:
        """Intersect two ranges of columns."""
        return Seen(_of(False, self.first, other.first), _of(True, self.last, other.last))

    def either(self, other: Seen) -> Seen | None:
        """Unite two ranges of columns; None if the union is no range."""
        if self.first is None and other.first is None:
            return Seen(None, _of(False, self.last, other.last))
        if self.last is None and other.last is None:
            return Seen(_of(True, self.first, other.first), None)
        return None


def _of(is_least: bool, a: Linear | Limit | None, b: Linear | Limit | None) -> Linear | Limit | None:
    return Limit(is_least, (a, b)) if a is not None and b is not None else a or b


class Labels(NamedTuple):
    """Integers of a row and of a column: the row sees the column where they are equal, as in documents."""

    row: SSAValue
    column: SSAValue


class Masked(NamedTuple):
    """A score without the masks that leave a row a range of columns, that range, and labels."""

    score: SSAValue
    seen: Seen
    labels: Labels | None = None


def without_ranges(body: Body, score: SSAValue, hidden: float) -> Masked:
    """Take the masks off a score that leave each row a range of columns.

    A mask selects what `hidden` columns have: -infinity, which it may also add, or 0, which functions such as
    `relu` may make of -infinity. Ranges are those of integers: indices, extents and tensors that
    are the same for all rows and columns, and their sums. The first comparison of an integer of the row with
    one of the column is taken off, too. Columns that only another condition hides
    stay hidden by a select.
    """
    seen = Seen()
    labels: Labels | None = None
    while (mask := _mask_of(body, score, hidden)) is not None:
        rest: list[tuple[SSAValue, bool]] = []
        found = Seen()
        known = labels
        for condition, negated in _conjuncts(mask.condition, mask.negated):
            if (part := _range_of(condition, negated, body.rank)) is not None:
                found = found.both(part)
            elif labels is None and (labels := _labels(condition, negated, body.rank)):
                continue
            else:
                rest.append((condition, negated))
        if found == Seen() and labels == known:
            break
        seen = seen.both(found)
        score = _masked(body, mask, rest, hidden)
    return Masked(score, seen, labels)


class _Mask(NamedTuple):
    """Where `condition` holds, or does not where `negated`, a score is `score` plus `added`."""

    condition: SSAValue
    negated: bool
    score: SSAValue
    added: SSAValue | None = None


def _is_number(value: SSAValue, number: float) -> bool:
    while isinstance(op := value.owner, CastOp) and op.element_type in (f32, *HALVES):
        value = op.operand
    return isinstance(op := value.owner, ConstantOp) and op.value.value.data == number


def _select(value: SSAValue, hidden: float) -> tuple[SSAValue, bool, SSAValue] | None:
    """Return the condition under which a value is not `hidden`, whether it is negated, and that value."""
    if not isinstance(op := value.owner, SelectOp):
        return None
    if _is_number(op.on_false, hidden):
        return op.condition, False, op.on_true
    if _is_number(op.on_true, hidden):
        return op.condition, True, op.on_false
    return None


def _mask_of(body: Body, score: SSAValue, hidden: float) -> _Mask | None:
    if (found := _select(score, hidden)) is not None:
        return _Mask(*found)
    return _mask_behind(body, score) if hidden == 0 else _added_mask(score)


def _mask_behind(body: Body, score: SSAValue) -> _Mask | None:
    """Return the mask of weights that are 0 where it hides what functions get: `relu(where(.., x, -inf))`."""
    rest: list[ElementwiseOp] = []
    value = score
    while isinstance(op := value.owner, ElementwiseOp) and (operand := _argument(op)) is not None:
        rest.append(op)
        value = operand
        for hidden in (0.0, -math.inf):
            found = _select(value, hidden)
            if found is None or reduce(_image, reversed(rest), hidden) != 0:
                continue
            condition, negated, inner = found
            for function in reversed(rest):
                operands = [inner if v is value else v for v in function.operands]
                types, properties = [r.type for r in function.results], dict(function.properties)
                new = type(function).create(operands=operands, result_types=types, properties=properties)
                value, inner = function.results[0], _added(body, new)
            return _Mask(condition, negated, inner)
    return None


def _argument(op: ElementwiseOp) -> SSAValue | None:
    """Return the one operand of an operation that is no number."""
    others = {v for v in op.operands if not isinstance(v.owner, ConstantOp)}
    return others.pop() if len(others) == 1 else None


def _image(value: float | None, op: ElementwiseOp) -> float | None:
    """Return what an operation makes of 0 or -infinity; None where that is neither, or not known."""
    numbers = [c.value.value.data for v in op.operands if isinstance(c := v.owner, ConstantOp)]
    match op:
        case CastOp() if op.element_type in (f32, *HALVES):
            return value
        case SigmoidOp() | ExpOp() if value == -math.inf:
            return 0.0
        case MaxOp() if numbers == [0.0]:
            return 0.0
        case MulOp() if value == 0 and all(map(math.isfinite, numbers)):
            return 0.0
        case MulOp() if numbers and 0 < numbers[0] < math.inf:
            return value
        case _:
            return None


def _added_mask(score: SSAValue) -> _Mask | None:
    """Return a mask of 0 and -infinity that is added to a score."""
    if isinstance(op := score.owner, AddOp):
        for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if (found := _select(value, -math.inf)) is not None:
                condition, negated, added = found
                is_zero = isinstance(c := added.owner, ConstantOp) and c.value.value.data == 0
                return _Mask(condition, negated, other, None if is_zero else added)
    return None


def _masked(body: Body, mask: _Mask, rest: Sequence[tuple[SSAValue, bool]], hidden: float) -> SSAValue:
    """Append the masked score to a body, with those conditions of the mask that are no range of columns."""
    score = mask.score
    if mask.added is not None:
        body.add(total := AddOp(score, mask.added))
        score = total.result
    for condition, negated in rest:
        body.add(least := ConstantOp(hidden))
        given = (least.result, score) if negated else (score, least.result)
        body.add(select := SelectOp(condition, *given))
        score = select.result
    return score


def _conjuncts(condition: SSAValue, negated: bool) -> Iterator[tuple[SSAValue, bool]]:
    """Yield the conditions all of which hold where a condition does, or where it does not if `negated`."""
    match op := condition.owner:
        case NotOp():
            yield from _conjuncts(op.operands[0], not negated)
        case AndOp() if not negated:
            for part in op.operands:
                yield from _conjuncts(part, False)
        case OrOp() if negated:
            for part in op.operands:
                yield from _conjuncts(part, True)
        case _:
            yield condition, negated


def _range_of(condition: SSAValue, negated: bool, rank: int) -> Seen | None:
    """Return the columns for which a condition holds as a range; None if they are none."""
    match op := condition.owner:
        case CmpOp():
            relation = op.relation.data.value
            return _compared(op, _NEGATED.get(relation) if negated else relation, rank)
        case NotOp():
            return _range_of(op.operands[0], not negated, rank)
        case AndOp() | OrOp():
            parts = [_range_of(part, negated, rank) for part in op.operands]
            first, second = parts
            if first is None or second is None:
                return None
            return first.both(second) if isinstance(op, AndOp) != negated else first.either(second)
        case _:
            return None


def _compared(op: CmpOp, relation: str | None, rank: int) -> Seen | None:
    left, right = _linear(op.lhs, rank), _linear(op.rhs, rank)
    if left is None or right is None or relation is None or S32 not in (op.lhs.type, op.rhs.type):
        return None
    difference = left.plus(right, -1)
    if abs(difference.column) != 1:
        return None
    if difference.column == -1:
        relation = _TURNED[relation]
    limit = Linear(0, 0).plus(
        Linear(0, difference.row, difference.terms, difference.number), -difference.column
    )
    if limit.row not in (0, 1):
        return None
    match relation:
        case "lt":
            return Seen(None, limit.plus(Linear(number=1), -1))
        case "le":
            return Seen(None, limit)
        case "gt":
            return Seen(limit.plus(Linear(number=1), 1), None)
        case "ge":
            return Seen(limit, None)
        case "eq":
            return Seen(limit, limit)
        case _:
            return None


def _linear(value: SSAValue, rank: int) -> Linear | None:
    """Return an integer of a body as a sum; None where it depends on row or column in another way."""
    match op := value.owner:
        case ConstantOp():
            number = op.value.value.data
            whole = math.isfinite(number) and number == int(number) and abs(number) < LARGEST
            return Linear(number=int(number)) if whole else None
        case _ if value.type != S32:
            return None
        case BitsOp() if isinstance(index := op.operand.owner, IndexOp):
            match rank - index.axis.value.data:
                case 1:
                    return Linear(column=1)
                case 2:
                    return Linear(row=1)
                case _:
                    return Linear(terms=((1, value),))
        case AddOp() | SubOp():
            left, right = _linear(op.lhs, rank), _linear(op.rhs, rank)
            if left is None or right is None:
                return None
            return left.plus(right, -1 if isinstance(op, SubOp) else 1)
        case NegOp():
            given = _linear(op.operands[0], rank)
            return None if given is None else Linear().plus(given, -1)
        case _:
            return Linear(terms=((1, value),)) if _is_same(value, rank) else None


def _is_same(value: SSAValue, rank: int) -> bool:
    """Whether a scalar of a body is the same for all rows and columns."""
    axes = axes_of(value, rank)
    return axes is not None and not axes & {rank - 2, rank - 1}


def _labels(condition: SSAValue, negated: bool, rank: int) -> Labels | None:
    """Return the integers of a row and of a column that a condition says are equal."""
    if not isinstance(op := condition.owner, CmpOp) or S32 not in (op.lhs.type, op.rhs.type):
        return None
    relation = op.relation.data.value
    if (_NEGATED.get(relation) if negated else relation) != "eq":
        return None
    axes = [axes_of(value, rank) for value in op.operands]
    row, column = rank - 2, rank - 1
    for (given, other), (own, others) in ((op.operands, axes), (op.operands[::-1], axes[::-1])):
        if own is None or others is None or row not in own or column not in others:
            continue
        if column not in own and row not in others:
            return Labels(given, other)
    return None


def axes_of(value: SSAValue, rank: int) -> frozenset[int] | None:
    """Return the axes along which a scalar of a body differs; None where that is not known."""
    match op := value.owner:
        case ConstantOp():
            return frozenset()
        case IndexOp():
            return frozenset((op.axis.value.data,))
        case LoadOp():
            dims = Shaped.of(op.source.type).dims
            return frozenset(rank - len(dims) + a for a, d in enumerate(dims) if d != 1)
        case ElementwiseOp() | BitsOp():
            parts = [axes_of(v, rank) for v in op.operands]
            known = [p for p in parts if p is not None]
            return frozenset[int]().union(*known) if len(known) == len(parts) else None
        case _:
            return None


def limit_bits(body: Body, limit: Linear | Limit) -> SSAValue:
    """Append the computation of a limit; return its bits as an f32."""
    return label_bits(body, _limit(body, limit))


def label_bits(body: Body, value: SSAValue) -> SSAValue:
    """Append what makes an s32 of a number; return its bits as an f32."""
    return body.as_bits(value if value.type == S32 else _added(body, CastOp(value, S32)))


def _added(body: Body, op: Operation) -> SSAValue:
    body.add(op)
    return op.results[0]


def _limit(body: Body, limit: Linear | Limit) -> SSAValue:
    if isinstance(limit, Limit):
        kind = MinOp if limit.is_least else MaxOp
        values = [_limit(body, part) for part in limit.of]
        whole = [v if v.type == S32 else _added(body, CastOp(v, S32)) for v in values]
        return reduce(lambda a, b: _added(body, kind(a, b)), whole)
    total: SSAValue | None = None
    row = [(1, _row(body))] if limit.row else []
    for sign, value in (*row, *limit.terms):
        if total is None:
            total = value if sign > 0 else _added(body, NegOp(value))
        else:
            total = _added(body, (AddOp if sign > 0 else SubOp)(total, value))
    if total is None:
        return _added(body, ConstantOp(float(limit.number)))
    if limit.number:
        number = _added(body, ConstantOp(float(limit.number)))
        total = _added(body, AddOp(total, number))
    return total


def _row(body: Body) -> SSAValue:
    index = _added(body, IndexOp(body.rank - 2))
    return _added(body, BitsOp(index))
