"""Generate the operations of an index expression, `x[:, 2:8, None]`, which means what it means in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine.affine_expr import AffineConstantExpr

from mucc.diagnostics.core import Span
from mucc.dialects.mu.ops.views import ExpandOp, SqueezeOp
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.types import Dim, Shaped
from mucc.frontend import ast
from mucc.frontend.context import type_text
from mucc.frontend.exprtext import dimexpr_text, index_text
from mucc.frontend.extents import idents, lower_extent
from mucc.frontend.promises import affine
from mucc.library.extents import add, polynomial

if TYPE_CHECKING:
    from mucc.frontend.exprgen import ExprGen, Value

WHOLE = ast.Slice(Span(0, 0))


class Range(NamedTuple):
    """The elements `start`, `start + step`, ... before `stop` of an axis, reversed if `is_reversed`."""

    start: Dim
    stop: Dim
    step: int = 1
    is_reversed: bool = False

    def is_whole(self, extent: Dim) -> bool:
        """Whether these are all elements of an axis, in either order."""
        return (self.start, self.stop, self.step) == (0, extent, 1)


def resolve(start: Dim | None, stop: Dim | None, step: int | None, extent: Dim) -> Range:
    """Resolve the bounds of a slice as NumPy does: negative ones count from the end, numbers are clipped.

    Bounds that follow from run-time dims are not clipped: they promise to lie within the extent. Raises
    TypeRuleError MU1091 for a part of a run-time extent in reverse, and MU1093 for an empty slice and for a
    step of 0.
    """
    if step == 0:
        raise TypeRuleError("MU1093", "the step of a slice is 0", helps=("`::2` takes every other element",))
    if isinstance(extent, str) or isinstance(start, str) or isinstance(stop, str):
        if start is None and stop is None and step == -1:
            return Range(0, extent, is_reversed=True)
        if step is not None and step < 0:
            raise TypeRuleError(
                "MU1091",
                f"part of the extent {extent} in reverse, which is known at run time only",
                helps=("reverse the part: `x[2:N][::-1]`",),
            )
        first, end = (None if bound is None else _from_front(bound, extent) for bound in (start, stop))
        return Range(first or 0, extent if end is None else end, step or 1)
    taken = range(*slice(start, stop, step).indices(extent))
    if not taken:
        raise TypeRuleError(
            "MU1093",
            f"the slice takes none of {extent} elements",
            notes=("an extent is at least 1",),
        )
    if taken.step < 0:
        return Range(taken[-1], taken[0] + 1, -taken.step, is_reversed=True)
    return Range(taken.start, taken.stop, taken.step)


def _from_front(bound: Dim, extent: Dim) -> Dim:
    """Return a bound counted from the front: one that is negative for all dims counts from the end."""
    terms = polynomial(bound).terms
    is_negative = bool(terms) and all(factor < 0 for _, factor in terms)
    return add(extent, bound) if is_negative else bound


def resolve_index(index: Dim, extent: Dim) -> Range:
    """Resolve an index, which may count from the end. Raises TypeRuleError MU1093."""
    if isinstance(index, str) or isinstance(extent, str):
        first = _from_front(index, extent)
        return Range(first, add(first, 1))
    if not -extent <= index < extent:
        last = f"0 to {extent - 1}, or {-extent} to -1 from the end"
        raise TypeRuleError("MU1093", f"the index {index} is out of range", notes=(f"it is {last}",))
    return resolve(index, index + 1 or None, None, extent)


def lower_index(gen: ExprGen, expr: ast.Index, value: Value) -> Value:
    """Generate `value[...]`: slices, then the axes dropped, then those inserted; None after an error."""
    gen.scope.used.update(name.text for item in expr.items for name in _names(item))
    items = _of_axes(gen, expr, value) if value is not None else None
    if value is None or items is None:
        return None
    extents = Shaped.of(value.type).dims
    label = (expr.operand.span, f"this is {type_text(value.type)}")
    reversed_axes: list[int] = []
    dropped: list[int] = []
    result: Value = value
    for axis, item in enumerate(i for i in items if not isinstance(i, ast.NewAxis)):
        if item == WHOLE:
            continue
        try:
            part = _range(gen, item, extents[axis])
        except TypeRuleError as error:
            gen.context.rule_error(error, item.span, (label,))
            return None
        except _Reported:
            return None
        if not part.is_whole(extents[axis]):
            result = _sliced(gen, item.span, result, axis, part, label)
        if result is None:
            return None
        if part.is_reversed:
            reversed_axes.append(axis)
        if not isinstance(item, ast.Slice):
            dropped.append(axis)
    return _arranged(gen, expr.span, result, items, reversed_axes, dropped)


def _of_axes(gen: ExprGen, expr: ast.Index, value: SSAValue) -> list[ast.IndexItem] | None:
    """Return the items with a slice for each axis that `...` stands for, or that none is given for."""
    items = list(expr.items)
    rests = [n for n, item in enumerate(items) if isinstance(item, ast.Ellipsis)]
    if len(rests) > 1:
        gen.context.error(
            "MU1018",
            "an index has one `...` at most",
            items[rests[1]].span,
            labels=((items[rests[0]].span, "first one"),),
            helps=("write `:` for one axis",),
        )
        return None
    rank = len(Shaped.of(value.type).dims)
    given = sum(not isinstance(item, ast.NewAxis | ast.Ellipsis) for item in items)
    if given > rank:
        wanted = index_text([WHOLE] * rank) if rank else "[None]"
        gen.context.error(
            "MU1018",
            f"{given} indices for the {rank} axes of {type_text(value.type)}",
            expr.span,
            helps=(f"write at most one for each axis, `{wanted}`, and `None` for a new one",),
        )
        return None
    place = rests[0] if rests else len(items)
    items[place : place + 1] = [WHOLE] * (rank - given)
    return items


class _Reported(Exception):
    """An index has an error that is reported already."""


def _range(gen: ExprGen, item: ast.IndexItem, extent: Dim) -> Range:
    """Resolve a slice or an integer. Raises TypeRuleError, or _Reported after an error in a bound."""
    if isinstance(item, ast.Slice):
        start, stop = (None if b is None else _bound(gen, b) for b in (item.start, item.stop))
        step = None if item.step is None else _number(gen, item.step, _dims_in(gen, item.step))
        return resolve(start, stop, step, extent)
    assert not isinstance(item, ast.NewAxis | ast.Ellipsis)
    return resolve_index(_bound(gen, item), extent)


def _bound(gen: ExprGen, expr: ast.DimExpr) -> Dim:
    """Evaluate an index, which may follow from run-time dims. Raises _Reported after an error."""
    dims = _dims_in(gen, expr)
    if all(dims.get(name.text) is not None for name in idents(expr)):
        return _number(gen, expr, dims)
    if any(name.text not in dims for name in idents(expr)):
        affine(gen.context, expr, dims, "an index")  # which reports the name
        raise _Reported
    bound = lower_extent(gen.context, expr, dims, None)
    if bound is None:
        raise _Reported
    return bound


def _dims_in(gen: ExprGen, expr: ast.DimExpr) -> dict[str, int | None]:
    """Return the dims, and the numbers that other names in an index are. Raises _Reported for values."""
    dims = dict(gen.scope.dims)
    for name in idents(expr):
        if (known := gen.scope.integer(name.text)) is not None:
            dims[name.text] = known
        elif gen.scope.is_open(name.text):
            raise _Reported
        elif name.text in gen.scope.values:
            gen.context.error(
                "MU1097",
                f"the value '{name.text}' is not an integer that is known at compile time",
                name.span,
                helps=(
                    f"`gather(x, {name.text})` picks rows by number, "
                    f"`take_along(x, {name.text}, axis=1)` elements of an axis",
                ),
            )
            raise _Reported
    return dims


def _number(gen: ExprGen, expr: ast.DimExpr, dims: dict[str, int | None]) -> int:
    """Evaluate an integer of an index, with the dims and numbers in it. Raises _Reported after an error."""
    number = affine(gen.context, expr, dims, "an index")
    if number is None:
        raise _Reported
    if not isinstance(number, AffineConstantExpr):
        names = " and ".join(sorted({n.text for n in idents(expr) if dims[n.text] is None}))
        gen.context.error(
            "MU1091",
            f"`{dimexpr_text(expr)}` must be a number, and {names} is known at run time only",
            expr.span,
            helps=(f"bind the dim: `[{names.split()[0]}=64]`",),
        )
        raise _Reported
    return number.value


def _names(expr: ast.IndexItem) -> Iterator[ast.Ident]:
    """Yield the names in an index."""
    match expr:
        case ast.NewAxis() | ast.Ellipsis():
            return
        case ast.Slice():
            for bound in (expr.start, expr.stop, expr.step):
                if bound is not None:
                    yield from idents(bound)
        case _:
            yield from idents(expr)


def _sliced(
    gen: ExprGen, span: Span, value: SSAValue, axis: int, part: Range, label: tuple[Span, str]
) -> Value:
    from mucc.dialects.mu.ops.shape import SliceOp

    start, stop, step, _ = part
    return gen.add(span, lambda: SliceOp(value, axis, start, stop, step), labels=(label,))


def _arranged(
    gen: ExprGen,
    span: Span,
    value: Value,
    items: Sequence[ast.IndexItem],
    reversed_axes: Sequence[int],
    dropped: Sequence[int],
) -> Value:
    """Reverse axes, drop those of integers and insert those of `None`."""
    from mucc.dialects.mu.ops.shape import FlipOp

    kept = [i for i in items if isinstance(i, ast.Slice | ast.NewAxis)]
    inserted = [n for n, item in enumerate(kept) if isinstance(item, ast.NewAxis)]
    steps: list[tuple[Callable[[SSAValue], Operation], Sequence[int]]] = [
        (lambda v: FlipOp(v, reversed_axes), reversed_axes),
        (lambda v: SqueezeOp(v, dropped), dropped),
        (lambda v: ExpandOp(v, inserted), inserted),
    ]
    for build, axes in steps:
        if axes and value is not None:
            operand = value
            value = gen.add(span, lambda: build(operand))  # noqa: B023 (called at once)
    return value
