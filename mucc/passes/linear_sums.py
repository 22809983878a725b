"""Sums over axes, or over windows of axes, of what is linear in products of matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from mucc.dialects.mu.ops import elementwise as e
from mucc.dialects.mu.ops.contraction import Compute, ComputeAttr, MatmulOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.dialects.mu.ops.shape import ReshapeOp
from mucc.dialects.mu.ops.views import BroadcastOp, ExpandOp, SqueezeOp, TransposeOp
from mucc.dialects.mu.types import Dim, Dims, Shaped
from mucc.dialects.rewriting import Emit
from mucc.library.extents import multiply
from mucc.passes.product_work import LEAST, ROWS, is_plain, work
from mucc.passes.values import dims_of

DEPTH = 64
"""Operations between a sum and a product."""


class Windows(NamedTuple):
    """What is added up of tensors that broadcast to `dims`: along each axis windows of that size.

    Windows lie side by side, and the axis then has one element for each; where the size is None, the axis
    is added up as a whole, and dropped.
    """

    dims: Dims
    sizes: Mapping[int, int | None]

    def own(self, value: SSAValue) -> tuple[dict[int, int | None], list[Dim]]:
        """Return the windows along axes of a value, and how often it counts: along axes that it lacks."""
        first = len(self.dims) - len(dims_of(value))
        own: dict[int, int | None] = {}
        counts: list[Dim] = []
        for axis, size in self.sizes.items():
            dim = dims_of(value)[axis - first] if axis >= first else 1
            if dim != self.dims[axis]:
                counts.append(self.dims[axis] if size is None else size)
            if axis >= first and (size is None or dim == self.dims[axis]):
                own[axis - first] = size
        return own, counts

    def is_constant(self, value: SSAValue) -> bool:
        """Whether a value has equal elements along the axes."""
        own, _ = self.own(value)
        return all(dims_of(value)[axis] == 1 for axis in own)

    def without(self, axes: Sequence[int]) -> Windows:
        """Return the same without some axes of extent 1."""
        kept = [axis for axis in range(len(self.dims)) if axis not in axes]
        sizes = {n: self.sizes[axis] for n, axis in enumerate(kept) if axis in self.sizes}
        return Windows(tuple(self.dims[axis] for axis in kept), sizes)

    def before(self, op: ReshapeOp) -> Windows | None:
        """Return the windows of what is reshaped, where the last axis is divided into windows."""
        dims = dims_of(op.operand)
        *outer, size = self.dims
        last = len(self.dims) - 1
        if dims_of(op.result) != self.dims or dict(self.sizes) != {last: None} or not isinstance(size, int):
            return None
        if len(dims) != last or dims[:-1] != tuple(outer[:-1]) or dims[-1] != multiply([outer[-1], size]):
            return None
        return Windows(dims, {last - 1: size}) if isinstance(dims[-1], int) else None


class Side(NamedTuple):
    """An operand of a product: what it is a view of, with the axis of rows or columns, and that of K."""

    value: SSAValue
    outer: int
    inner: int

    @staticmethod
    def of(value: SSAValue, outer: int, inner: int) -> Side:
        """Build an operand; `outer` and `inner` count from the end."""
        if isinstance(view := value.owner, TransposeOp):
            return Side(view.operand, inner, outer)
        return Side(value, outer, inner)

    def summed(self, emit: Emit, size: int | None) -> SSAValue:
        """Add up windows along the outer axis, which is dropped where all of it is added."""
        axis = len(dims_of(self.value)) + self.outer
        return added(emit, self.value, {axis: size})

    def windowed(self, emit: Emit, size: int | None) -> Side:
        """Add up windows along the outer axis, if it is not added up as a whole."""
        return self if size in (None, 1) else self._replace(value=self.summed(emit, size))

    def scaled(self, emit: Emit, factor: SSAValue) -> Side:
        """Multiply along the outer axis by a vector."""
        factor = factor if self.outer == -1 else emit(ExpandOp(factor, [1]))
        return self._replace(value=emit(e.MulOp(as_f32(emit, self.value), factor)))

    def dot(self, emit: Emit, vector: SSAValue) -> SSAValue:
        """Multiply by a vector, or one for each batch, along K: the sum over K, which is dropped."""
        if len(dims_of(vector)) > 1 or self.inner != -1:
            vector = emit(ExpandOp(vector, [len(dims_of(vector)) + 1 + self.outer]))
        products = emit(e.MulOp(as_f32(emit, self.value), vector))
        return emit(ReduceOp("sum", products, [len(dims_of(products)) + self.inner]))

    def operand(self, emit: Emit, outer: int) -> SSAValue:
        """Return the operand in f32, as a product takes it, with rows or columns along an axis."""
        value = as_f32(emit, self.value)
        return value if self.outer == outer else emit(TransposeOp(value))


def as_f32(emit: Emit, value: SSAValue) -> SSAValue:
    return value if Shaped.of(value.type).element_type == f32 else emit(e.CastOp(value, f32))


def added(emit: Emit, value: SSAValue, sizes: Mapping[int, int | None]) -> SSAValue:
    """Add up windows of a value in f32; whole axes are dropped."""
    dims, axes = list[Dim](), list[int]()
    for axis, dim in enumerate(dims_of(value)):
        size = sizes.get(axis, 1)
        if size is None:
            axes.append(len(dims))
            dims.append(dim)
        elif size == 1:
            dims.append(dim)
        else:
            assert isinstance(dim, int)
            dims += [dim // size, size]
            axes.append(len(dims) - 1)
    if tuple(dims) != dims_of(value):
        value = emit(ReshapeOp(value, tuple(dims)))
    return emit(ReduceOp("sum", value, axes)) if axes else as_f32(emit, value)


class UnfitError(Exception):
    """A sum is not linear in its product, or the product's operands have no smaller sums."""


Key = tuple[SSAValue, Dims, tuple[SSAValue, ...]]


@dataclass
class LinearSum:
    """Sums over `windows` of what `root` adds up: linear in products that nothing else uses.

    Every step is a law of sums of real numbers, with S for the sum, x and y any tensors, c what has one
    value for all that is added up to one sum, and n the number of those elements:
    S(x + y) = S(x) + S(y), S(-x) = -S(x), S(c x) = c S(x), S(x / c) = S(x) / c, and S(c) = n c. For a
    product, S over columns n of (A B)[m, n] g[n] is the sum over k of A[m, k] S(B[k, n] g[n]), as finite sums
    may be exchanged; S over rows is its mirror image. Sums of operands are f32 where the product's operands
    were rounded to a narrower format. Infinities may meet in another order: the result is not finite either
    way.
    """

    root: Operation
    windows: Windows
    always: bool = False
    emit: Emit = field(default_factory=Emit)
    _known: dict[Key, SSAValue] = field(default_factory=dict[Key, SSAValue])
    _seen: dict[Key, bool] = field(default_factory=dict[Key, bool])
    _linear: set[SSAValue] = field(default_factory=set[SSAValue])
    """Values that are linear in a product, and that only such values and the root use."""

    @staticmethod
    def of(root: Operation, windows: Windows, always: bool = False) -> LinearSum | None:
        """Return the sum if there is a product in it; without `always` only if replacing it is worth it."""
        found = LinearSum(root, windows, always)
        found._collect(root.operands[0], windows, DEPTH)
        return found if found._linear and found._is_closed() else None

    def _collect(self, value: SSAValue, windows: Windows, depth: int) -> bool:
        """Note the values that are linear in a product; return whether this one is."""
        key = (value, windows.dims, ())
        if key not in self._seen:
            self._seen[key] = self._is_linear(value, windows, depth)
            if self._seen[key]:
                self._linear.add(value)
        return self._seen[key]

    def _is_linear(self, value: SSAValue, windows: Windows, depth: int) -> bool:
        op = value.owner
        if depth == 0:
            return False
        match op:
            case MatmulOp():
                return _is_replaced(op, windows, self.always)
            case e.AddOp() | e.SubOp() | e.MulOp():
                found = [self._collect(v, windows, depth - 1) for v in op.operands]
                return any(found)
            case e.DivOp() if not windows.is_constant(op.rhs):
                return False
            case e.DivOp() | e.NegOp():
                return self._collect(op.operands[0], windows, depth - 1)
            case e.CastOp() if Shaped.of(value.type).element_type == f32:
                return self._collect(op.operand, windows, depth - 1)
            case ExpandOp() if len(dims_of(value)) == len(windows.dims):
                return self._collect(op.operand, windows.without(op.axes.get_values()), depth - 1)
            case ReshapeOp() if (inner := windows.before(op)) is not None:
                return self._collect(op.operand, inner, depth - 1)
            case _:
                return False

    def _is_closed(self) -> bool:
        """Whether nothing else uses the products, or what is linear in them."""
        ops = {self.root, *(v.owner for v in self._linear)}
        return all(use.operation in ops for v in self._linear for use in v.uses)

    def summed(self) -> SSAValue:
        """Build the reduction from reduced operands, without axes reduced whole. Raises UnfitError."""
        value = self._sum(self.root.operands[0], self.windows, ())
        sizes = self.windows.sizes
        dims = [
            dim if axis not in sizes else _divided(dim, sizes[axis])
            for axis, dim in enumerate(self.windows.dims)
            if sizes.get(axis, 1) is not None
        ]
        return value if dims_of(value) == tuple(dims) else self.emit(BroadcastOp(value, tuple(dims)))

    def _sum(self, value: SSAValue, windows: Windows, factors: tuple[SSAValue, ...]) -> SSAValue:
        key = (value, windows.dims, factors)
        if key not in self._known:
            self._known[key] = self._summed(value, windows, factors)
        return self._known[key]

    def _summed(self, value: SSAValue, windows: Windows, factors: tuple[SSAValue, ...]) -> SSAValue:
        op, emit = value.owner, self.emit
        if value not in self._linear:
            return self._leaf(value, windows, factors)
        match op:
            case MatmulOp():
                result = self._product(op, windows, factors)
            case e.AddOp() | e.SubOp() | e.NegOp():
                result = self._terms(value, windows, factors)
            case e.MulOp():
                part, other = (op.lhs, op.rhs) if op.lhs in self._linear else (op.rhs, op.lhs)
                if windows.is_constant(other):
                    result = emit(e.MulOp(self._sum(part, windows, factors), self._dropped(other, windows)))
                else:
                    result = self._sum(part, windows, (*factors, other))
            case e.DivOp() if windows.is_constant(op.rhs):
                result = emit(e.DivOp(self._sum(op.lhs, windows, factors), self._dropped(op.rhs, windows)))
            case e.CastOp():
                result = self._sum(op.operand, windows, factors)
            case ExpandOp() if not factors and len(dims_of(value)) == len(windows.dims):
                result = self._expanded(op, windows)
            case ReshapeOp() if not factors and (inner := windows.before(op)) is not None:
                result = self._sum(op.operand, inner, ())
            case _:
                raise UnfitError
        return as_f32(emit, result)

    def _terms(self, value: SSAValue, windows: Windows, factors: tuple[SSAValue, ...]) -> SSAValue:
        """Reduce each term of an addition, and add the results. Terms without the product are added first."""
        others: dict[Dims, SSAValue] = {}
        total: SSAValue | None = None
        for is_negative, term in self._taken_apart(value):
            if term in self._linear:
                total = self._plus(total, self._sum(term, windows, factors), is_negative)
            else:
                dims, term = dims_of(term), as_f32(self.emit, term)
                others[dims] = self._plus(others.get(dims), term, is_negative)
        for other in others.values():
            total = self._plus(total, self._leaf(other, windows, factors), False)
        assert total is not None
        return total

    def _taken_apart(self, value: SSAValue) -> list[tuple[bool, SSAValue]]:
        """Return the terms of a sum, in order, each with whether it is subtracted."""
        terms: list[tuple[bool, SSAValue]] = []
        pending = [(False, value)]
        while pending:
            is_negative, term = pending.pop()
            op = term.owner
            is_sum = term is value or (term in self._linear and term.has_one_use())
            if is_sum and isinstance(op, e.AddOp | e.SubOp):
                pending += [(is_negative ^ isinstance(op, e.SubOp), op.rhs), (is_negative, op.lhs)]
            elif is_sum and isinstance(op, e.NegOp):
                pending.append((not is_negative, op.operand))
            else:
                terms.append((is_negative, term))
        return terms

    def _plus(self, total: SSAValue | None, term: SSAValue, is_negative: bool) -> SSAValue:
        if total is None:
            return self.emit(e.NegOp(term)) if is_negative else term
        return self.emit((e.SubOp if is_negative else e.AddOp)(total, term))

    def _expanded(self, op: ExpandOp, windows: Windows) -> SSAValue:
        inserted = op.axes.get_values()
        result = self._sum(op.operand, windows.without(inserted), ())
        kept = [axis for axis in range(len(windows.dims)) if windows.sizes.get(axis, 1) is not None]
        axes = [n for n, axis in enumerate(kept) if axis in inserted]
        first = len(kept) - len(axes) - len(dims_of(result))
        return self.emit(ExpandOp(result, [axis - first for axis in axes])) if axes else result

    def _dropped(self, value: SSAValue, windows: Windows) -> SSAValue:
        """Drop the axes that are added up as a whole, along which a value has one element."""
        own, _ = windows.own(value)
        axes = [axis for axis, size in own.items() if size is None]
        return self.emit(SqueezeOp(value, axes)) if axes else value

    def _leaf(self, value: SSAValue, windows: Windows, factors: Sequence[SSAValue]) -> SSAValue:
        """Add up what is no product, and count it along axes that it lacks."""
        value = as_f32(self.emit, value)
        for factor in factors:
            value = self.emit(e.MulOp(value, factor))
        own, counts = windows.own(value)
        return self._counted(added(self.emit, value, own) if own else value, counts)

    def _counted(self, value: SSAValue, counts: Sequence[Dim]) -> SSAValue:
        for count in counts:
            number = self.emit(e.ConstantOp(float(count)) if isinstance(count, int) else e.ExtentOp(count))
            value = self.emit(e.MulOp(value, number))
        return value

    def _product(self, op: MatmulOp, windows: Windows, factors: Sequence[SSAValue]) -> SSAValue:
        """Multiply sums of the operands."""
        emit = self.emit
        lhs, rhs = Side.of(op.lhs, -2, -1), Side.of(op.rhs, -1, -2)
        for factor in factors:
            lhs, rhs = self._scaled(lhs, rhs, factor)
        own, counts = windows.own(op.result)
        rank = len(dims_of(op.result))
        rows, columns = own.pop(rank - 2, 1), own.pop(rank - 1, 1)
        lhs, rhs = lhs.windowed(emit, rows), rhs.windowed(emit, columns)
        match rows, columns:
            case None, None:
                result = self._dot(lhs.summed(emit, None), rhs.summed(emit, None))
            case _, None:
                result = lhs.dot(emit, rhs.summed(emit, None))
            case None, _:
                result = self._times(lhs.summed(emit, None), rhs, op)
            case _:
                result = emit(MatmulOp(lhs.operand(emit, -2), rhs.operand(emit, -1), op.compute))
        return self._counted(added(emit, result, own) if own else result, counts)

    def _times(self, rows: SSAValue, rhs: Side, op: MatmulOp) -> SSAValue:
        """Multiply sums of rows, one for each batch, by the right operand."""
        if len(dims_of(rhs.value)) != 2 or len(dims_of(rows)) < 2:
            return rhs.dot(self.emit, rows)
        # Products of formats below f32 are exact, and those of tf32x3 are nearly so.
        is_narrow = op.compute.data not in (Compute.TF32, Compute.F32)
        compute = ComputeAttr(Compute.TF32X3) if is_narrow else op.compute
        return self.emit(MatmulOp(rows, rhs.operand(self.emit, -1), compute))

    def _dot(self, a: SSAValue, b: SSAValue) -> SSAValue:
        products = self.emit(e.MulOp(a, b))
        return self.emit(ReduceOp("sum", products, [len(dims_of(products)) - 1]))

    def _scaled(self, lhs: Side, rhs: Side, factor: SSAValue) -> tuple[Side, Side]:
        """Multiply the operand along whose rows or columns a factor varies. Raises UnfitError."""
        dims = dims_of(factor)
        varying = [axis - len(dims) for axis, dim in enumerate(dims) if dim != 1]
        if varying not in ([-1], [-2]):
            raise UnfitError
        others = [axis for axis in range(len(dims)) if axis - len(dims) != varying[0]]
        vector = self.emit(SqueezeOp(factor, others)) if others else factor
        return (
            (lhs, rhs.scaled(self.emit, vector)) if varying == [-1] else (lhs.scaled(self.emit, vector), rhs)
        )


def _divided(dim: Dim, size: int | None) -> Dim:
    if size in (None, 1):
        return dim
    assert isinstance(dim, int)
    return dim // size


def _is_replaced(op: MatmulOp, windows: Windows, always: bool) -> bool:
    """Whether sums of the operands of a product save more than further launches cost."""
    own, _ = windows.own(op.result)
    *_, rows, columns = dims_of(op.result)
    rank = len(dims_of(op.result))
    over_rows, over_columns = own.get(rank - 2, 1), own.get(rank - 1, 1)
    if not is_plain(op) or (over_rows, over_columns) == (1, 1):
        return False
    if always:
        return True
    if None not in (over_rows, over_columns) and any(_is_narrow(v) for v in (op.lhs, op.rhs)):
        return False  # sums of windows would be rounded to the format of the product
    left = rows if over_columns != 1 else columns
    if isinstance(left, int) and left < ROWS:
        return False
    return work(*dims_of(op.result), dims_of(op.lhs)[-1]) >= LEAST


def _is_narrow(value: SSAValue) -> bool:
    """Whether an operand has fewer bits than f32, or is cast from a format that has."""
    while isinstance(view := value.owner, TransposeOp):
        value = view.operand
    return Shaped.of(value.type).element_type != f32 or isinstance(value.owner, e.CastOp)
