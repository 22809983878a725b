"""Structure of tensors: zeros by position, constants, symmetry.

Products of triangular or diagonal matrices need fewer operations, and such operands fewer bytes; what does
not depend on any input needs neither. The facts follow from the operations of a kernel, and from what is said
of its inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import MatmulOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.random import RandomOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import IotaOp, TriangleOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Shaped


class Pattern(StrEnum):
    """The pattern of a matrix in the last two axes: positions of possible non-zeros, symmetry."""

    GENERAL = "general"
    LOWER = "lower triangular"
    UPPER = "upper triangular"
    DIAGONAL = "diagonal"
    SYMMETRIC = "symmetric"

    @property
    def transposed(self) -> Pattern:
        return {Pattern.LOWER: Pattern.UPPER, Pattern.UPPER: Pattern.LOWER}.get(self, self)


class Structure(NamedTuple):
    """The structure of a value. `constant` is the value of all elements, None if they differ.

    No element that is a number is below `low` or above `high`.
    """

    pattern: Pattern = Pattern.GENERAL
    constant: float | None = None
    depends: bool = True
    """Whether the value depends on an input."""
    low: float = -math.inf
    high: float = math.inf

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest possible element."""
        return (self.low, self.high) if self.constant is None else (self.constant, self.constant)

    @property
    def is_zero(self) -> bool:
        return self.constant == 0.0

    def share(self, rows: int, columns: int) -> Fraction:
        """Return the fraction of a matrix's elements that determines the others."""
        if self.constant is not None:
            return Fraction(0)
        n = min(rows, columns)
        match self.pattern:
            case Pattern.DIAGONAL:
                return Fraction(n, rows * columns)
            case Pattern.LOWER | Pattern.UPPER | Pattern.SYMMETRIC if rows == columns:
                return Fraction(n + 1, 2 * n)
            case _:
                return Fraction(1)


GENERAL = Structure()

_ZERO_KEEPING = (
    *(e.NegOp, e.AbsOp, e.SqrtOp, e.TanhOp, e.ErfOp, e.GeluOp, e.Expm1Op, e.Log1pOp, e.CastOp),
    *(e.SignOp, e.FloorOp, e.CeilOp, e.RoundOp, e.TruncOp, e.SinOp, e.TanOp),
)


class Structures:
    """Infer the structure of every value of a kernel; `inputs` has that of parameters, by name."""

    def __init__(self, kernel: KernelOp, inputs: Mapping[str, Structure] | None = None):
        self._known: dict[SSAValue, Structure] = {}
        given = inputs or {}
        for argument, name in zip(kernel.body.block.args, kernel.arg_names, strict=True):
            self._known[argument] = given.get(name.data, GENERAL)
        for op in kernel.body.block.ops:
            for result in op.results:
                self._known[result] = self._of(op)

    def __getitem__(self, value: SSAValue) -> Structure:
        return self._known.get(value, GENERAL)

    def _of(self, op: Operation) -> Structure:
        if isinstance(op, e.ConstantOp):
            return Structure(constant=op.value.value.data, depends=False)
        operands = [self[v] for v in op.operands]
        found = _transfer(op, operands)
        constant = found.constant
        depends = constant is None and (not operands or any(s.depends for s in operands))
        return found._replace(depends=depends)


def _transfer(op: Operation, x: list[Structure]) -> Structure:
    rule: Callable[[Operation, list[Structure]], Structure] | None = _RULES.get(type(op))
    if rule is not None:
        return rule(op, x)
    low, high = _RANGES.get(type(op), (-math.inf, math.inf))
    if isinstance(op, e.CastOp):
        low, high = x[0].limits
    if isinstance(op, _ZERO_KEEPING) and len(x) == 1:
        return Structure(x[0].pattern, 0.0 if x[0].is_zero else None, low=low, high=high)
    return Structure(low=low, high=high)


_RANGES: dict[type[Operation], tuple[float, float]] = {
    **dict.fromkeys((e.AbsOp, e.SqrtOp, e.RsqrtOp, e.ExpOp, e.SoftplusOp), (0.0, math.inf)),
    **dict.fromkeys((e.TanhOp, e.ErfOp, e.SinOp, e.CosOp, e.SignOp), (-1.0, 1.0)),
    e.SigmoidOp: (0.0, 1.0),
    e.Atan2Op: (-math.pi, math.pi),
    RandomOp: (0.0, 1.0),
    e.Expm1Op: (-1.0, math.inf),
}
"""Bounds of the results of functions, for any operand."""


def _sum(op: Operation, x: list[Structure]) -> Structure:
    a, b = x
    if a.is_zero or b.is_zero:
        other = b if a.is_zero else a
        sign = -1.0 if a.is_zero and isinstance(op, e.SubOp) else 1.0
        return Structure(other.pattern, None if other.constant is None else sign * other.constant)
    if isinstance(op, e.SubOp) and _same(op.operands[0], op.operands[1]):
        return Structure(constant=0.0)
    return Structure(a.pattern if a.pattern is b.pattern else _both(a.pattern, b.pattern))


def _both(a: Pattern, b: Pattern) -> Pattern:
    """Infer the pattern of a sum: a diagonal operand keeps the pattern of the other."""
    if Pattern.DIAGONAL in (a, b):
        return b if a is Pattern.DIAGONAL else a
    return Pattern.GENERAL


def _product(op: Operation, x: list[Structure]) -> Structure:
    a, b = x
    if a.is_zero or b.is_zero:
        return Structure(constant=0.0)
    if a.constant is not None and b.constant is not None:
        return Structure(constant=a.constant * b.constant)
    if a.constant is not None or b.constant is not None:
        return Structure(b.pattern if a.constant is not None else a.pattern)
    patterns = {a.pattern, b.pattern}
    if Pattern.DIAGONAL in patterns or {Pattern.LOWER, Pattern.UPPER} <= patterns:
        return Structure(Pattern.DIAGONAL)
    for pattern in (Pattern.LOWER, Pattern.UPPER):
        if pattern in patterns:
            return Structure(pattern)
    return Structure(a.pattern if len(patterns) == 1 else Pattern.GENERAL)


def _quotient(op: Operation, x: list[Structure]) -> Structure:
    if _same(op.operands[0], op.operands[1]) and x[0].constant not in (None, 0.0):
        return Structure(constant=1.0)
    return Structure(x[0].pattern if x[1].constant else Pattern.GENERAL)


def _matmul(op: Operation, x: list[Structure]) -> Structure:
    a, b = x[0], x[1]
    if a.is_zero or b.is_zero:
        return Structure(constant=0.0)
    for pattern in (Pattern.DIAGONAL, Pattern.LOWER, Pattern.UPPER):
        if a.pattern in (pattern, Pattern.DIAGONAL) and b.pattern in (pattern, Pattern.DIAGONAL):
            return Structure(pattern)
    return GENERAL


def _extreme(op: Operation, x: list[Structure]) -> Structure:
    choose = max if isinstance(op, e.MaxOp) else min
    low, high = (choose(ends) for ends in zip(x[0].limits, x[1].limits, strict=True))
    return Structure(constant=low if low == high else None, low=low, high=high)


def _triangle(op: Operation, x: list[Structure]) -> Structure:
    """Infer the pattern of one triangle up to some diagonal."""
    assert isinstance(op, TriangleOp)
    return _kept_triangle(x[0], op.kind.data == "lower", op.diagonal.value.data)


def _choice(op: Operation, x: list[Structure]) -> Structure:
    """Infer the pattern of `where(row + d >= column, x, 0)`, as which `decompose` writes a triangle."""
    assert isinstance(op, e.SelectOp)
    zero, condition = op.on_false.owner, op.condition.owner
    if not isinstance(zero, e.ConstantOp) or zero.value.value.data or not isinstance(condition, e.CmpOp):
        return GENERAL
    rows, columns, offset = condition.lhs.owner, condition.rhs.owner, 0.0
    if isinstance(rows, e.AddOp) and isinstance(added := rows.rhs.owner, e.ConstantOp):
        rows, offset = rows.lhs.owner, added.value.value.data
    if not isinstance(rows, IotaOp) or not isinstance(columns, IotaOp):
        return GENERAL
    rank = len(Shaped.of(op.result.type).dims)
    if (rows.axis.value.data, columns.axis.value.data) != (rank - 2, rank - 1):
        return GENERAL
    match condition.relation.data:
        case e.Relation.GE:
            return _kept_triangle(x[1], True, int(offset))
        case e.Relation.LE:
            return _kept_triangle(x[1], False, int(offset))
        case _:
            return GENERAL


def _kept_triangle(x: Structure, lower: bool, offset: int) -> Structure:
    if x.is_zero:
        return x
    if (offset > 0) if lower else (offset < 0):
        return GENERAL
    other = Pattern.UPPER if lower else Pattern.LOWER
    if x.pattern in (Pattern.DIAGONAL, other):
        return Structure(Pattern.DIAGONAL)
    return Structure(Pattern.LOWER if lower else Pattern.UPPER)


def _transpose(op: Operation, x: list[Structure]) -> Structure:
    return x[0]._replace(pattern=x[0].pattern.transposed)


def _keep_constant(op: Operation, x: list[Structure]) -> Structure:
    return x[0]._replace(pattern=Pattern.GENERAL)


def _reduce(op: Operation, x: list[Structure]) -> Structure:
    assert isinstance(op, ReduceOp)
    low, high = x[0].limits
    if op.kind.data in ("max", "min", "mean"):
        return Structure(constant=x[0].constant, low=low, high=high)
    return Structure(constant=0.0) if x[0].is_zero else GENERAL


_RULES: dict[type[Operation], Callable[[Operation, list[Structure]], Structure]] = {
    e.AddOp: _sum,
    e.SubOp: _sum,
    e.MulOp: _product,
    e.DivOp: _quotient,
    e.MaxOp: _extreme,
    e.MinOp: _extreme,
    MatmulOp: _matmul,
    TriangleOp: _triangle,
    e.SelectOp: _choice,
    TransposeOp: _transpose,
    BroadcastOp: _keep_constant,
    ExpandOp: _keep_constant,
    SqueezeOp: _keep_constant,
    ReduceOp: _reduce,
}


def _same(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are equal up to views and reductions over axes of extent 1."""
    return _origin(a) is _origin(b)


def _origin(value: SSAValue) -> SSAValue:
    owner = value.owner
    if isinstance(owner, BroadcastOp | ExpandOp | SqueezeOp | e.CastOp):
        if isinstance(owner, e.CastOp) and owner.operand.type != owner.result.type:
            return value
        return _origin(owner.operand)
    if isinstance(owner, ReduceOp) and owner.kind.data in ("sum", "max", "min", "mean"):
        dims = Shaped.of(owner.operand.type).dims
        if all(dims[axis] == 1 for axis in owner.axes.get_values()):
            return _origin(owner.operand)
    return value


def product_share(a: Structure, b: Structure, m: int, n: int, k: int) -> Fraction:
    """Compute the fraction of the multiply-adds of an m x k by k x n product that structure leaves."""
    if a.is_zero or b.is_zero:
        return Fraction(0)
    if Pattern.DIAGONAL in (a.pattern, b.pattern):
        return Fraction(1, k)
    triangular = (Pattern.LOWER, Pattern.UPPER)
    if a.pattern in triangular and a.pattern is b.pattern and m == n == k:
        return Fraction((n + 1) * (n + 2), 6 * n * n)  # n (n + 1) (n + 2) / 6 of n^3
    if {a.pattern, b.pattern} == set(triangular) and m == n == k:
        return Fraction((n + 1) * (2 * n + 1), 6 * n * n)  # the sum of squares
    if (a.pattern in triangular and m == k) or (b.pattern in triangular and n == k):
        return Fraction(k + 1, 2 * k)
    return Fraction(1)
