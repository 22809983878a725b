"""Draft views of values: indices of several axes, and other shapes of the same elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu_fuzz import reference as ref
from bench.gpu_fuzz.drafts import Dim, Dims, Draft, Expr, shape_of
from bench.gpu_fuzz.parts import like, primary
from bench.gpu_fuzz.reference import Bounded
from mucc.library.extents import multiply

torch: Any = ref.torch

MOST_RANK = 5
"""The most axes of a value."""


def indexed(d: Draft, y: Expr) -> Expr:
    """Return elements by an index of all axes: numbers, slices with steps and bounds of any sign, None."""
    written: list[str] = []
    picks: list[Callable[[Any], Any]] = []
    dims: list[Dim] = []
    for extent in y.dims:
        if len(dims) < MOST_RANK - 1 and d.c.chance(1, 8):
            written.append("None")
            picks.append(_inserted(len(dims)))
            dims.append(1)
        if not isinstance(extent, int):
            text, turned = d.c.pick(((":", False), (":", False), ("::-1", True)))
            written.append(text)
            if turned:
                picks.append(_flipped(len(dims)))
            dims.append(extent)
            continue
        match d.c.pick(("all", "slice", "slice", "number")):
            case "all":
                written.append(":")
                dims.append(extent)
            case "number":
                place = d.c.number(extent) - d.c.pick((0, extent))
                written.append(str(place))
                picks.append(_selected(len(dims), place))
            case _:
                low, high = (d.c.pick(("", str(d.c.number(2 * extent + 4) - extent - 2))) for _ in range(2))
                step = d.c.pick((1, 2, -1, 3, -2))
                bounds = slice(int(low) if low else None, int(high) if high else None, step)
                places = list(range(*bounds.indices(extent)))
                if not places:
                    low = high = ""
                    places = list(range(extent))[::step]
                written.append(f"{low}:{high}{f':{step}' if step != 1 else ''}")
                picks.append(_at(len(dims), places))
                dims.append(len(places))
    if y.dims and d.c.chance(1, 4):
        while written and written[-1] == ":":
            written.pop()
        if len(written) < len(y.dims) and d.c.chance(1, 2):
            written.append("...")
    if not written:
        return y

    def move(t: Any) -> Any:
        for pick in picks:
            t = pick(t)
        return t

    return like(y, f"{primary(y)}[{', '.join(written)}]", tuple(dims), move)


def _inserted(axis: int) -> Callable[[Any], Any]:
    return lambda t: t.unsqueeze(axis)


def _flipped(axis: int) -> Callable[[Any], Any]:
    return lambda t: t.flip(axis)


def _selected(axis: int, place: int) -> Callable[[Any], Any]:
    return lambda t: t.select(axis, place)


def _at(axis: int, places: list[int]) -> Callable[[Any], Any]:
    return lambda t: t.index_select(axis, torch.tensor(places, device=t.device))


def reshaped(d: Draft, y: Expr) -> Expr:
    """Return a value with axes merged, split, or inserted."""
    dims = list(y.dims)
    for _ in range(1 + d.c.number(2)):
        axis = d.c.number(len(dims))
        extent = dims[axis]
        match d.c.pick(("merge", "split", "one", "whole")):
            case "merge" if axis + 1 < len(dims):
                dims[axis : axis + 2] = [multiply((extent, dims[axis + 1]))]
            case "split" if isinstance(extent, int) and len(dims) < MOST_RANK:
                factor = d.c.pick([n for n in range(1, extent + 1) if extent % n == 0])
                dims[axis : axis + 1] = [factor, extent // factor]
            case "one" if len(dims) < MOST_RANK:
                dims.insert(axis, 1)
            case "whole":
                dims = [multiply(dims)]
            case _:
                pass
    shape: Dims = tuple(dims)
    text = f"reshape({y.text}, ({', '.join(map(str, shape))}{',' * (len(shape) == 1)}))"
    return Expr(
        text, y.dtype, shape, lambda env: Bounded(*(t.reshape(shape_of(env, shape)) for t in y.value(env)))
    )
