"""Draft operations that move elements: slices, flips, rolls, padding, concatenation, triangles, indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.composites import FLOATS
from bench.gpu_fuzz.drafts import FEW, Dim, Dims, Draft, Env, Expr
from bench.gpu_fuzz.pointwise import MULTIPLY, binary, chain, reduced, results, scanned
from bench.gpu_fuzz.reference import Bounded
from mucc.library.extents import multiply, names, subtract

torch: Any = ref.torch

SIZES = (8, 1, 2, 3, 5, 12, 16, 24, 33, 64)
"""Extents of axes along which elements move, which are numbers."""


def parts(d: Draft) -> None:
    """Draft a map, a reduction or a scan of tensors whose elements move on the way."""
    names = ("B", "M")[d.c.number(2) :]
    dims = (*(d.dim(n, FEW) if n == "B" else d.dim(n) for n in names), d.c.pick(SIZES))
    y = chain(d, d.tensor(dims, d.c.pick(FLOATS), stem="x"), 1)
    for _ in range(1 + d.c.number(3)):
        y = moved(d, y)
        if d.c.chance(1, 2):
            y = chain(d, d.named(y) if d.c.chance(1, 2) else y, 1)
    match d.c.pick(("map", "map", "reduction", "scan", "numbered")):
        case "reduction":
            d.result(reduced(d, y, ("sum", "max", "min", "amax")), "f32")
        case "scan":
            results(d, scanned(d, y))
        case "numbered":
            results(d, binary(MULTIPLY, y, numbers(d, y), y.dims))
        case _:
            results(d, chain(d, y, 2))


def numbers(d: Draft, y: Expr) -> Expr:
    """Return the indices along an axis of a shape."""
    axis = d.c.number(len(y.dims))
    shape = f"({', '.join(map(str, y.dims))}{',' * (len(y.dims) == 1)})"

    def compute(env: Env) -> Bounded:
        extents = [env.extent(dim) for dim in y.dims]
        device = y.value(env).value.device
        along = torch.arange(extents[axis], dtype=torch.float64, device=device)
        view = [-1 if i == axis else 1 for i in range(len(extents))]
        return ref.exact(along.reshape(view).expand(extents))

    return Expr(f"cast(iota({shape}, axis={axis}), f32)", "f32", y.dims, compute)


def moved(d: Draft, y: Expr) -> Expr:
    """Return a tensor with elements of another at other indices."""
    named = [i for i, dim in enumerate(y.dims) if _is_open(d, dim)]
    if named and d.c.chance(1, 4):
        return _moved_by_name(d, y, d.c.pick(tuple(named)))
    fixed = [i for i, dim in enumerate(y.dims) if isinstance(dim, int)]
    axis = d.c.pick(tuple(fixed))
    extent = y.dims[axis]
    assert isinstance(extent, int)
    match d.c.pick(("slice", "slice", "flip", "roll", "pad", "concat", "concat", "triangle")):
        case "slice":
            start, step = d.c.number(extent), 1 + d.c.number(3)
            stop = start + 1 + d.c.number(extent - start)
            written = [":"] * len(y.dims)
            written[axis] = f"{start}:{stop}" + f":{step}" * (step > 1)
            index = (*[slice(None)] * axis, slice(start, stop, step))
            count = len(range(start, stop, step))
            text = f"{primary(y)}[{', '.join(written)}]"
            return like(y, text, with_extent(y.dims, axis, count), lambda t: t[index])
        case "flip":
            axes = tuple(sorted({d.c.number(len(y.dims)), axis}))
            return like(y, f"flip({y.text}, axis={listed(axes)})", y.dims, lambda t: t.flip(axes))
        case "roll":
            shift = d.c.number(2 * extent + 1) - extent
            text = f"roll({y.text}, {shift}, axis={axis})"
            return like(y, text, y.dims, lambda t: t.roll(shift, axis))
        case "pad":
            return _padded(d, y, axis, extent)
        case "concat":
            return _concatenated(d, y, axis, extent)
        case _ if len(y.dims) >= 2:
            diagonal, lower = d.c.number(7) - 3, d.c.chance(1, 2)
            function = torch.tril if lower else torch.triu
            text = f"{'tril' if lower else 'triu'}({y.text}, {diagonal})"
            return like(y, text, y.dims, lambda t: function(t, diagonal))
        case _:
            return like(y, f"{primary(y)}[::-1]", y.dims, lambda t: t.flip(0))


def _is_open(d: Draft, dim: Dim) -> bool:
    """Whether an extent follows from dims that calls bind, and that are not always few."""
    return isinstance(dim, str) and all(d.dims[n] is None and n not in d.few for n in names(dim))


def _moved_by_name(d: Draft, y: Expr, axis: int) -> Expr:
    """Return a tensor with elements of another at other indices along an axis whose extent has a name."""
    dim, before, behind = y.dims[axis], (slice(None),) * axis, [":"] * (len(y.dims) - 1 - axis)

    def part(bounds: str) -> str:
        return f"{primary(y)}[{', '.join([*[':'] * axis, bounds, *behind])}]"

    match d.c.pick(("tail", "head", "inner", "turned", "twice", "flip")):
        case "tail":
            return like(
                y,
                part("1:"),
                with_extent(y.dims, axis, subtract(dim, 1)),
                lambda t: t[(*before, slice(1, None))],
            )
        case "head":
            text = part(f": {dim} - 1")
            return like(
                y, text, with_extent(y.dims, axis, subtract(dim, 1)), lambda t: t[(*before, slice(-1))]
            )
        case "inner":
            text = part(f"2 : {dim} - 1")
            return like(
                y, text, with_extent(y.dims, axis, subtract(dim, 3)), lambda t: t[(*before, slice(2, -1))]
            )
        case "turned":
            text = f"concat({part('1:')}, {part(':1')}, axis={axis})"
            return like(y, text, y.dims, lambda t: t.roll(-1, axis))
        case "twice":
            text = f"concat({y.text}, {y.text}, axis={axis})"
            dims = with_extent(y.dims, axis, multiply((2, dim)))
            return like(y, text, dims, lambda t: torch.cat((t, t), axis))
        case _:
            return like(y, part("::-1"), y.dims, lambda t: t.flip(axis))


def _padded(d: Draft, y: Expr, axis: int, extent: int) -> Expr:
    mode = d.c.pick(("constant", "reflect", "replicate", "circular"))
    most = {"reflect": extent - 1, "circular": extent}.get(mode, 4)
    low, high = d.c.number(min(most, 4) + 1), d.c.number(min(most, 4) + 1)
    behind = (0,) * (len(y.dims) - 1 - axis)
    given = f"mode={mode}" if mode != "constant" else "value=2"
    text = f"pad({y.text}, {listed((low, *behind))}, {listed((high, *behind))}, {given})"
    source = [_source(mode, i, extent) for i in range(-low, extent + high)]

    def compute(t: Any, value: float) -> Any:
        index = torch.tensor([i or 0 for i in source], device=t.device)
        picked = t.index_select(axis, index)
        inside = torch.tensor([i is not None for i in source], device=t.device)
        shape = [-1 if i == axis else 1 for i in range(t.dim())]
        return torch.where(inside.reshape(shape), picked, value)

    def both(env: Env) -> Bounded:
        value, error = y.value(env)
        return Bounded(compute(value, 2.0), compute(error, 0.0))

    return Expr(text, y.dtype, with_extent(y.dims, axis, low + extent + high), both)


def _source(mode: str, index: int, extent: int) -> int | None:
    """Return the element that stands at an index of a padded axis; None for the constant."""
    if 0 <= index < extent:
        return index
    match mode:
        case "reflect":
            return abs(index) if index < 0 else 2 * (extent - 1) - index
        case "replicate":
            return 0 if index < 0 else extent - 1
        case "circular":
            return index % extent
        case _:
            return None


def _concatenated(d: Draft, y: Expr, axis: int, extent: int) -> Expr:
    others = [
        y if d.c.chance(1, 3) else d.tensor(with_extent(y.dims, axis, d.c.pick(SIZES)), y.dtype, stem="c")
        for _ in range(1 + d.c.number(2))
    ]
    items = [y, *others]
    if d.c.chance(1, 3):
        items.reverse()
    text = f"concat({', '.join(i.text for i in items)}, axis={axis})"
    extents = [i.dims[axis] for i in items]
    whole = sum(e for e in extents if isinstance(e, int))

    def compute(env: Env) -> Bounded:
        found = [i.value(env) for i in items]
        return Bounded(*(torch.cat([f[k] for f in found], axis) for k in (0, 1)))

    return Expr(text, y.dtype, with_extent(y.dims, axis, whole), compute)


def like(y: Expr, text: str, dims: Dims, move: Callable[[Any], Any]) -> Expr:
    """Return a value whose elements, and their errors, are moved ones of another."""
    return Expr(text, y.dtype, dims, lambda env: Bounded(*(move(t) for t in y.value(env))))


def with_extent(dims: Dims, axis: int, extent: Dim) -> Dims:
    """Replace the extent of an axis."""
    return (*dims[:axis], extent, *dims[axis + 1 :])


def listed(values: Sequence[int]) -> str:
    """Write one number, or several in brackets."""
    return str(values[0]) if len(values) == 1 else f"({', '.join(map(str, values))})"


def primary(y: Expr) -> str:
    """Write a value so that an index can follow."""
    return y.text if re.fullmatch(r"\w+", y.text) else f"({y.text})"
