"""Functions of values with bounds (`bounded`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mucc.dialects.mu.bounded_values import (
    FUNCTION,
    ROUNDING,
    SMALLEST,
    TINY,
    Bounded,
    root_of_least,
)
from mucc.dialects.mu.sum_roundings import running_roundoff

if TYPE_CHECKING:
    from mucc.dialects.mu.bounded import BoundedArrays


class Functions:
    """The functions of array libraries that meanings of operations call, of `Bounded` values."""

    def __init__(self, arrays: BoundedArrays):
        self._arrays, self._xp = arrays, arrays.plain.xp

    def where(self, condition: Bounded, a: Bounded, b: Bounded) -> Bounded:
        """Select: where a condition may be either, the other value may come out."""
        arrays, xp = self._arrays, self._xp
        chosen = xp.where(condition.value, a.value, b.value)
        if a.error is None and b.error is None and condition.error is None:
            return Bounded(arrays, chosen)
        error = xp.where(condition.value, a.bound, b.bound)
        if condition.error is not None:
            either = arrays.distance(a.value, b.value) + xp.maximum(a.bound, b.bound)
            error = xp.where(condition.error, either, error)
        return arrays.with_error(chosen, [error], anything=[error == math.inf])

    def exp(self, x: Bounded) -> Bounded:
        """Raise: the argument's rounding counts as well, which grows with it."""
        size = self._xp.exp(x.value) * self._xp.abs(x.value)
        rounded = self._xp.where(self._xp.isfinite(size), size, self._arrays.number(0.0)) * ROUNDING
        return self._arrays.applied(self._xp.exp, (x,), FUNCTION, rounded + TINY)

    def log(self, x: Bounded) -> Bounded:
        return self._arrays.applied(self._xp.log, (x,), FUNCTION, ROUNDING)

    def sqrt(self, x: Bounded) -> Bounded:
        found = self._arrays.applied(self._xp.sqrt, (x,), 2 * ROUNDING, TINY)
        return found.at_least(root_of_least(x))

    def abs(self, x: Bounded) -> Bounded:
        return self._arrays.applied(self._xp.abs, (x,))

    def maximum(self, a: Bounded, b: Bounded) -> Bounded:
        return self._arrays.applied(self._xp.maximum, (a, b))

    def isfinite(self, x: Bounded) -> Bounded:
        return Bounded(self._arrays, self._xp.isfinite(x.value))

    def zeros_like(self, x: Bounded) -> Bounded:
        return Bounded(self._arrays, self._xp.zeros_like(x.value), is_zero=True)

    def concatenate(self, xs: Sequence[Bounded], axis: int) -> Bounded:
        return self._arrays.moved_together(lambda parts: self._xp.concatenate(parts, axis), xs)

    def stack(self, xs: Sequence[Bounded], axis: int = 0) -> Bounded:
        return self._arrays.moved_together(lambda parts: self._xp.stack(parts, axis), xs)

    def swapaxes(self, x: Bounded, a: int, b: int) -> Bounded:
        return self._moved("swapaxes", x, a, b)

    def flip(self, x: Bounded, axes: tuple[int, ...]) -> Bounded:
        return self._moved("flip", x, axes)

    def roll(self, x: Bounded, shift: int, axis: int) -> Bounded:
        return self._moved("roll", x, shift, axis)

    def tril(self, x: Bounded, diagonal: int = 0) -> Bounded:
        return self._moved("tril", x, diagonal)

    def triu(self, x: Bounded, diagonal: int = 0) -> Bounded:
        return self._moved("triu", x, diagonal)

    def broadcast_to(self, x: Bounded, shape: Sequence[int]) -> Bounded:
        return self._moved("broadcast_to", x, shape)

    def _moved(self, name: str, x: Bounded, *how: Any) -> Bounded:
        return self._arrays.moved(lambda t: getattr(self._xp, name)(t, *how), x)

    def cumsum(self, x: Bounded, axis: int) -> Bounded:
        xp, arrays = self._xp, self._arrays

        def total(terms: Any) -> Any:
            return xp.cumsum(terms, axis)

        own = running_roundoff(arrays.plain, xp.swapaxes(x.value, axis, -1))
        errors = [xp.swapaxes(own, axis, -1) * total(xp.abs(x.value))]
        anything = list[Any]()
        if x.error is not None:
            errors.append(arrays.summed(x.error, total))
            anything.append(total(x.error) == math.inf)
        return arrays.with_error(total(x.value), errors, anything=anything)

    def cumprod(self, x: Bounded, axis: int) -> Bounded:
        xp, arrays, count = self._xp, self._arrays, int(x.shape[axis])
        found = xp.cumprod(x.value, axis)
        relative = xp.where(x.bound == 0, arrays.number(0.0), x.bound / xp.abs(x.value))
        grown = xp.abs(found) * xp.cumsum(relative, axis)
        # Numbers below the normal ones are rounded to multiples of the smallest, at each step.
        size = xp.maximum(xp.abs(found), arrays.number(1e-300))
        steps = SMALLEST * size * xp.cumsum(1 / size, axis)
        return arrays.with_error(found, [grown, steps], 2 * (2 + count) * ROUNDING)

    def argmax(self, x: Bounded, axis: int) -> Bounded:
        return self._place("argmax", x, axis)

    def argmin(self, x: Bounded, axis: int) -> Bounded:
        return self._place("argmin", x, axis)

    def _place(self, name: str, x: Bounded, axis: int) -> Bounded:
        """Find the largest: elements whose intervals reach the highest lower end may be it."""
        xp, arrays, find = self._xp, self._arrays, getattr(self._xp, name)
        place = arrays.plain.float64(find(x.value, axis))
        if x.error is None:
            return Bounded(arrays, place)
        sign = 1.0 if name == "argmax" else -1.0
        high, low = sign * x.value + x.error, sign * x.value - x.error
        most = arrays.plain.reduce("max", low, (axis,))
        shape = tuple(1 if i == axis % len(x.shape) else int(n) for i, n in enumerate(x.shape))
        able = arrays.plain.float64(high >= most.reshape(shape))
        first = arrays.plain.float64(xp.argmax(able, axis))
        last = int(x.shape[axis]) - 1 - arrays.plain.float64(xp.argmax(xp.flip(able, (axis,)), axis))
        return Bounded(arrays, place, xp.maximum(xp.abs(place - first), xp.abs(last - place)))
