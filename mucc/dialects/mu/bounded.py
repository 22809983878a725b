"""Arrays of values with bounds of the error that a device kernel may make: running error analysis.

Interpreters compute with `Bounded` values as with arrays of NumPy or torch. Every operation bounds what its
operands' errors become, and adds what its own rounding to f32 may lose (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., section 3.3). Errors of the terms of a sum count as independent ones: the sum
is off by at most DEVIATIONS standard deviations (Higham and Mary, A New Approach to Probabilistic Rounding
Error Analysis, SIAM J. Sci. Comput. 41, 2019). Bounds are of first order.

A function that jumps, such as `floor`, a comparison or a rounding to 16 bits, is evaluated at both ends of
its argument's interval, so that an argument near a jump may give either side.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from mucc.dialects.mu.arrays import Arrays
from mucc.dialects.mu.bounded_functions import Functions
from mucc.dialects.mu.bounded_values import (
    DEVIATIONS,
    EXACT,
    HALF,
    LARGEST,
    ROUNDING,
    SMALLEST,
    TINY,
    Bounded,
)
from mucc.dialects.mu.sum_roundings import sum_roundoff


class BoundedArrays:
    """`Arrays` of `Bounded` values, whose parts are arrays of `plain`. `xp` has what meanings call.

    `arithmetic` is that of the matrix products that come next. If rows `repeats`, errors of terms are not
    independent, but those of copies are equal.
    """

    def __init__(self, plain: Arrays):
        self.plain, self.arithmetic, self.repeats = plain, HALF, False
        self.xp: Any = Functions(self)

    # Values

    def of(self, value: Any) -> Bounded:
        """Convert numbers and arrays."""
        if isinstance(value, Bounded):
            return value
        return self.full((), value) if isinstance(value, int | float) else Bounded(self, value)

    def number(self, value: float) -> Any:
        return self.plain.full((), value)

    def full(self, shape: Sequence[int], value: float) -> Bounded:
        """Return a constant, which kernels hold in f32."""
        made, held = self.plain.full(shape, value), ctypes.c_float(value).value
        if abs(value) > LARGEST or value == held:
            return Bounded(self, made, is_zero=value == 0, least=value)
        return Bounded(self, made, self.distance(self.plain.round_to(made, "f32"), made), least=held)

    def float64(self, value: Any) -> Bounded:
        return self._converted(self.plain.float64, value)

    def whole(self, value: Any) -> Bounded:
        return self._converted(self.plain.whole, value)

    def _converted(self, convert: Callable[[Any], Any], value: Any) -> Bounded:
        given = self.of(value)
        error = None if given.error is None else self.plain.float64(given.error)
        return Bounded(self, convert(given.value), error)

    # Errors of operations

    def with_error(
        self,
        value: Any,
        errors: Sequence[Any],
        relative: float = 0.0,
        least: float = 0.0,
        anything: Sequence[Any] = (),
    ) -> Bounded:
        """Return a value in f32 that has errors of its operands (or None), and one `relative` to its size.

        What is beyond f32 is infinite, without an error. Any value may come where an error is no number,
        where one of `anything` holds, and where only the error decides whether a value is beyond f32;
        it is finite there, so that functions see both ends of its interval.
        """
        xp, infinite = self.plain.xp, self.number(math.inf)
        size = xp.abs(value)
        beyond = size > LARGEST
        value = xp.where(beyond, xp.copysign(infinite, value), value)
        given = [e for e in errors if e is not None]
        if not given and not relative and not least:
            return Bounded(self, value)
        total: Any = sum(given, relative * size + least)
        total = xp.where(xp.isnan(total), infinite, total)
        undecided = beyond & (size - total <= LARGEST)
        total = xp.where(xp.isfinite(value), total, self.number(0.0))
        for holds in (*anything, undecided):
            total = xp.where(holds, infinite, total)
            value = xp.where(holds & ~xp.isfinite(value), self.number(0.0), value)
        return Bounded(self, value, total)

    def rounded_once(self, value: Any, errors: Sequence[Any], anything: Sequence[Any] = ()) -> Bounded:
        """Return the result of arithmetic that rounds to the nearest f32; exact operands err by no more.

        `anything` is as in `with_error`.
        """
        xp, nearest = self.plain.xp, self.plain.round_to(value, "f32")
        given = [e for e in errors if e is not None]
        rounding = ROUNDING * xp.abs(value) + SMALLEST
        exact = xp.where(xp.isfinite(nearest), self.distance(nearest, value), rounding)
        if not given:
            return self.with_error(value, [exact])
        total: Any = sum(given[1:], given[0])
        own = xp.where(total == 0, exact, rounding)
        return self.with_error(value, [total, own], anything=anything)

    def unknown(self, *xs: Bounded) -> list[Any]:
        """Return where any value of an operand may come, for each operand that has errors."""
        return [x.error == math.inf for x in xs if x.error is not None]

    def _reaches_zero(self, x: Bounded) -> Any:
        """Return where a value may be 0 or have the other sign: infinity times it may be anything."""
        return (self.plain.xp.abs(x.value) <= x.bound) & (x.bound > 0)

    def distance(self, a: Any, b: Any) -> Any:
        """Return the distance of values: 0 of equal infinities, infinite where only one is no number."""
        xp = self.plain.xp
        apart = xp.where((a == b) | (xp.isnan(a) & xp.isnan(b)), self.number(0.0), xp.abs(a - b))
        return xp.where(xp.isnan(apart), self.number(math.inf), apart)

    def sum_of(self, a: Any, b: Any) -> Bounded:
        a, b = self.of(a), self.of(b)
        value = a.value + b.value
        if a.is_zero or b.is_zero:
            kept = b if a.is_zero else a
            nothing = self.plain.xp.zeros_like(value)
            error = None if kept.error is None else kept.error + nothing
            return Bounded(self, value, error, is_zero=kept.is_zero, least=kept.least)
        found = self.rounded_once(value, (a.error, b.error), self.unknown(a, b))
        return found.at_least(ctypes.c_float(a.least + b.least).value)

    def product_of(self, a: Any, b: Any) -> Bounded:
        a, b = self.of(a), self.of(b)
        size, errors = self.plain.xp.abs, list[Any]()
        if a.error is not None:
            errors.append(a.error * (size(b.value) if b.error is None else size(b.value) + b.error))
        if b.error is not None:
            errors.append(b.error * size(a.value))
        anything = self.unknown(a, b)
        anything += [self.plain.xp.isinf(x.value) & self._reaches_zero(y) for x, y in ((a, b), (b, a))]
        found = self.rounded_once(a.value * b.value, errors, anything)
        return found.at_least(0.0) if a is b or (a.least >= 0 and b.least >= 0) else found

    def quotient_of(self, a: Any, b: Any) -> Bounded:
        a, b = self.of(a), self.of(b)
        xp, value, size = self.plain.xp, a.value / b.value, self.plain.xp.abs(b.value)
        errors: list[Any] = [] if a.error is None else [a.error / size]
        anything = self.unknown(a, b)
        if b.error is None:
            return self.with_error(value, errors, 2 * ROUNDING, TINY, anything)
        nearest = size - b.error if b.least <= 0 else self._not_below(b.least, size - b.error, size)
        apart = sum(errors, xp.abs(value)) * b.error / nearest
        errors.append(xp.where(b.error > 0, apart, self.number(0.0)))
        anything.append((nearest <= 0) & (b.error > 0))
        return self.with_error(value, errors, 2 * ROUNDING, TINY, anything)

    def moved(self, move: Callable[[Any], Any], x: Bounded) -> Bounded:
        """Move elements, and errors with them."""
        return Bounded(self, move(x.value), None if x.error is None else move(x.error), least=x.least)

    def moved_together(self, move: Callable[[list[Any]], Any], xs: Sequence[Bounded]) -> Bounded:
        """Move elements of several values into one."""
        exact = all(x.error is None for x in xs)
        return Bounded(self, move([x.value for x in xs]), None if exact else move([x.bound for x in xs]))

    def applied(
        self, function: Callable[..., Any], xs: Sequence[Bounded], relative: float = 0.0, least: Any = 0.0
    ) -> Bounded:
        """Apply a function of elements: evaluate it at both ends of each argument's interval.

        `relative` is what the function itself may lose, as a share of the result, and `least` what besides.
        """
        given = [x.value for x in xs]
        value, errors = function(*given), list[Any]()
        is_bool = self.is_bool(value)
        for place, x in enumerate(xs):
            if x.error is None:
                continue
            others = [function(*given[:place], end, *given[place + 1 :]) for end in self.ends(x)]
            apart = [o != value if is_bool else self.distance(o, value) for o in others]
            errors.append(reduce(_either if is_bool else self.plain.xp.maximum, apart))
        if is_bool:
            return Bounded(self, value, reduce(_either, errors) if errors else None)
        anything = [error == math.inf for error in errors]
        errors += [] if isinstance(least, float) else [least]
        return self.with_error(value, errors, relative, least if isinstance(least, float) else 0.0, anything)

    def is_bool(self, value: Any) -> bool:
        return str(value.dtype).endswith("bool")

    def ends(self, x: Bounded) -> tuple[Any, ...]:
        """Return what a kernel's values lie between; of bools what they are if not these."""
        if self.is_bool(x.value):
            return (x.value ^ x.error,)
        low = x.value - x.error
        return x.value + x.error, self._not_below(x.least, low, x.value) if x.least > -math.inf else low

    def _not_below(self, least: float, low: Any, value: Any) -> Any:
        """Raise the lower ends of intervals to `least`, but not above the values themselves."""
        xp = self.plain.xp
        return xp.minimum(xp.maximum(low, self.number(least)), value)

    def compared(self, relation: Callable[[Any, Any], Any], a: Any, b: Any) -> Bounded:
        """Compare: values whose intervals meet may give either answer."""
        a, b = self.of(a), self.of(b)
        value = relation(a.value, b.value)
        if a.error is None and b.error is None:
            return Bounded(self, value)
        room = a.bound + b.bound
        return Bounded(self, value, (self.distance(a.value, b.value) <= room) & (room > 0))

    def summed(self, error: Any, total: Callable[[Any], Any]) -> Any:
        """Return the error of a sum of terms with these errors, as `total` adds terms up."""
        xp = self.plain.xp
        return xp.minimum(total(error), DEVIATIONS * xp.sqrt(total(error * error)))

    def matrix_product(self, a: Bounded, b: Bounded) -> Bounded:
        xp, how, length = self.plain.xp, self.arithmetic, int(a.shape[-1])
        value, sizes, errors = a.value @ b.value, (xp.abs(a.value), xp.abs(b.value)), list[Any]()
        pairs = [] if a.error is None else [(a.error, sizes[1] + b.bound)]
        pairs += [] if b.error is None else [(sizes[0], b.error)]
        for left, right in pairs:
            plain = left @ right
            if not self.repeats:
                plain = xp.minimum(plain, DEVIATIONS * xp.sqrt((left * left) @ (right * right)))
            errors.append(plain)
        if how is EXACT or not length:
            return Bounded(self, value, sum(errors[1:], errors[0]) if errors else None)
        spread = xp.sqrt((a.value * a.value) @ (b.value * b.value))
        errors.append(DEVIATIONS * (how.base + how.by_root * math.sqrt(length)) * spread)
        relative = how.operand + how.by_length * length + ROUNDING
        return self.with_error(value, errors, relative, anything=self._unknown_terms(a, b))

    def _unknown_terms(self, a: Bounded, b: Bounded) -> list[Any]:
        """Return where any value may come of a product of matrices, since it may of one of the terms."""
        xp, found = self.plain.xp, list[Any]()
        infinite = [xp.isinf(x.value) for x in (a, b)]
        unknown = [x.bound == math.inf for x in (a, b)]
        reach = [self._reaches_zero(x) for x in (a, b)]
        whole = [xp.ones_like(x.value) for x in (a, b)]
        pairs = [(infinite[0], reach[1]), (reach[0], infinite[1])]
        pairs += [(unknown[0], whole[1]), (whole[0], unknown[1])]
        for left, right in pairs:
            if bool(left.any()) and bool(right.any()):
                found.append(self.plain.float64(left) @ self.plain.float64(right) > 0)
        return found

    # `Arrays`

    def round_to(self, value: Bounded, dtype: str) -> Bounded:
        """Round: a value near the middle of two numbers may become either."""
        return self.applied(partial(self.plain.round_to, dtype=dtype), (value,))

    def permute(self, value: Bounded, order: Sequence[int]) -> Bounded:
        return self.moved(lambda x: self.plain.permute(x, order), value)

    def repeat(self, value: Bounded, count: int, axis: int) -> Bounded:
        return self.moved(lambda x: self.plain.repeat(x, count, axis), value)

    def order(self, value: Bounded, axis: int) -> Bounded:
        """Return positions in order: any, where an error may change the order."""
        places = self.plain.float64(self.plain.order(value.value, axis))
        if value.error is None:
            return Bounded(self, places)
        return Bounded(self, places, self.plain.xp.zeros_like(places) + float(value.shape[axis]))

    def take_along(self, value: Bounded, index: Bounded, axis: int) -> Bounded:
        taken = self.moved(lambda x: self.plain.take_along(x, index.value, axis), value)
        if index.error is None:
            return taken
        return Bounded(
            self, taken.value, self.plain.xp.where(index.error > 0, self.number(math.inf), taken.bound)
        )

    def reduce(self, kind: str, value: Bounded, axes: Sequence[int]) -> Bounded:
        axes = tuple(axes)
        if not axes:
            return self.applied(partial(self.plain.reduce, kind, axes=axes), (value,))
        if kind not in ("sum", "mean", "prod"):
            return self._extreme(kind, value, axes)
        xp, found = self.plain.xp, self.plain.reduce(kind, value.value, axes)
        count = math.prod(int(value.shape[axis]) for axis in axes)

        def total(x: Any) -> Any:
            return self.plain.reduce("sum", x, axes)

        if kind == "prod":
            relative = value.bound / xp.abs(value.value)
            relative = xp.where(value.bound == 0, self.number(0.0), relative)
            return self.with_error(found, [xp.abs(found) * total(relative)], count * ROUNDING, TINY)
        own = sum_roundoff(self.plain, self._last(value.value, axes)) * total(xp.abs(value.value))
        error, anything = own, list[Any]()
        if value.error is not None:
            error = own + self.summed(value.error, total)
            anything.append(total(value.error) == math.inf)
        made = self.with_error(
            found, [error / count if kind == "mean" else error], ROUNDING, anything=anything
        )
        return made.at_least(0.0) if value.least >= 0 else made

    def _last(self, value: Any, axes: Sequence[int]) -> Any:
        """Move axes to the end, as one."""
        rank = len(value.shape)
        gone = [axis % rank for axis in axes]
        kept = [axis for axis in range(rank) if axis not in gone]
        moved = self.plain.permute(value, (*kept, *gone))
        count = math.prod(int(value.shape[axis]) for axis in gone)
        return moved.reshape((*(int(value.shape[axis]) for axis in kept), count))

    def _extreme(self, kind: str, value: Bounded, axes: tuple[int, ...]) -> Bounded:
        """Reduce by a function that keeps order: intervals become intervals."""
        found = self.plain.reduce(kind, value.value, axes)
        if value.error is None:
            return Bounded(self, found)
        if self.is_bool(found):
            ends = (value.value | value.error, value.value & ~value.error)
            most, least = (self.plain.reduce(kind, end, axes) for end in ends)
            return Bounded(self, found, most != least)
        xp = self.plain.xp
        apart = [self.distance(self.plain.reduce(kind, end, axes), found) for end in self.ends(value)]
        return self.with_error(found, [xp.maximum(*apart)])


def _either(a: Any, b: Any) -> Any:
    return a | b
