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
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

from mucc.dialects.mu.arrays import Arrays

ROUNDING = 2.0**-23
"""The relative error of one rounding to f32, doubled as all that follow, since bounds are of first order."""

FUNCTION = 2e-6
"""The relative error of a function in f32: `math.cuh` says 1e-6."""

TINY = 2.0**-126
"""The smallest normal f32: functions may replace smaller numbers by 0."""

SMALLEST = 2.0**-149
"""The smallest f32 above 0."""

LARGEST = 3.4028234663852886e38
"""The largest f32."""

DEVIATIONS = 10.0
"""The most standard deviations that sums of independent errors are off by, where 6 leave out one in 10^9."""


class Arithmetic(NamedTuple):
    """The standard deviation of a product's error, and its bias relative to the product.

    The deviation is relative to the root of the sum of the squares of the terms: `base`, and `by_root` times
    the root of their number. The bias is `operand`, and `by_length` times their number, since tensor cores
    cut off what they add.
    """

    base: float
    by_root: float = 0.0
    operand: float = 0.0
    by_length: float = 4e-9


EXACT = Arithmetic(0.0, 0.0, 0.0, 0.0)
HALF = Arithmetic(2.4e-7, 2e-7)
SINGLE = Arithmetic(2.4e-7, 2e-8)
TF32 = Arithmetic(4e-4, 1.2e-7, 2.0**-10)
TF32X3 = Arithmetic(5e-7, 1e-8, 2.0**-21)
EIGHT = Arithmetic(1.6e-4, 0.0, 2.0**-11)
EIGHT_FAST = Arithmetic(3e-4, 3e-5, 2.0**-11)
"""What docs/accuracy.md measured of the arithmetic alone, with room."""


class Bounded:
    """Float64 or bool values, and how far a kernel's may be from each.

    `error` is None where nothing was rounded, infinite where any value can come out, and for bools says which
    may be either. `is_zero` values are constants that sums leave out.
    """

    __slots__ = ("arrays", "error", "is_zero", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # comparisons give arrays

    def __init__(self, arrays: BoundedArrays, value: Any, error: Any = None, *, is_zero: bool = False):
        self.arrays, self.value, self.error, self.is_zero = arrays, value, error, is_zero

    @property
    def shape(self) -> Any:
        return self.value.shape

    @property
    def bound(self) -> Any:
        """The error as an array of the values' shape."""
        return self.arrays.plain.xp.zeros_like(self.value) if self.error is None else self.error

    def tolist(self) -> Any:
        return self.value.tolist()

    def reshape(self, *shape: Any) -> Bounded:
        return self.arrays.moved(lambda t: t.reshape(*shape), self)

    def __getitem__(self, index: Any) -> Bounded:
        return self.arrays.moved(lambda t: t[index], self)

    def __setitem__(self, index: Any, given: Bounded) -> None:
        self.is_zero = False
        if self.error is not None or given.error is not None:
            self.error = self.bound
            self.error[index] = given.bound
        self.value[index] = given.value

    def __neg__(self) -> Bounded:
        return Bounded(self.arrays, -self.value, self.error, is_zero=self.is_zero)

    def __add__(self, other: Any) -> Bounded:
        return self.arrays.sum_of(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Bounded:
        return self.arrays.sum_of(self, -self.arrays.of(other))

    def __rsub__(self, other: Any) -> Bounded:
        return self.arrays.sum_of(-self, other)

    def __mul__(self, other: Any) -> Bounded:
        return self.arrays.product_of(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Bounded:
        return self.arrays.quotient_of(self, other)

    def __rtruediv__(self, other: Any) -> Bounded:
        return self.arrays.quotient_of(other, self)

    def __pow__(self, exponent: int) -> Bounded:
        """Return powers; the only ones that interpreters write are of 0."""
        assert exponent == 0
        return Bounded(self.arrays, self.value**0)

    def __matmul__(self, other: Bounded) -> Bounded:
        return self.arrays.matrix_product(self, other)

    def __eq__(self, other: Any) -> Any:
        return self.arrays.compared(operator.eq, self, other)

    def __lt__(self, other: Any) -> Bounded:
        return self.arrays.compared(operator.lt, self, other)

    def __le__(self, other: Any) -> Bounded:
        return self.arrays.compared(operator.le, self, other)

    def __gt__(self, other: Any) -> Bounded:
        return self.arrays.compared(operator.gt, self, other)

    def __ge__(self, other: Any) -> Bounded:
        return self.arrays.compared(operator.ge, self, other)

    def __and__(self, other: Bounded) -> Bounded:
        return self.arrays.applied(_both, (self, other))


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
        made = self.plain.full(shape, value)
        if abs(value) > LARGEST or value == ctypes.c_float(value).value:
            return Bounded(self, made, is_zero=value == 0)
        return Bounded(self, made, self.distance(self.plain.round_to(made, "f32"), made))

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
        anything: Any = None,
    ) -> Bounded:
        """Return a value in f32 that has errors of its operands (or None), and one `relative` to its size.

        What is beyond f32 is infinite. Where an error is no number, or `anything` holds, any value may come.
        """
        xp, infinite = self.plain.xp, self.number(math.inf)
        size = xp.abs(value)
        value = xp.where(size > LARGEST, xp.copysign(infinite, value), value)
        given = [e for e in errors if e is not None]
        if not given and not relative and not least:
            return Bounded(self, value)
        total: Any = sum(given, relative * size + least)
        total = xp.where(xp.isnan(total), infinite, total)
        total = xp.where(xp.isfinite(value), total, self.number(0.0))
        return Bounded(self, value, total if anything is None else xp.where(anything, infinite, total))

    def rounded_once(self, value: Any, errors: Sequence[Any]) -> Bounded:
        """Return the result of arithmetic that rounds to the nearest f32; exact operands err by no more."""
        xp, nearest = self.plain.xp, self.plain.round_to(value, "f32")
        given = [e for e in errors if e is not None]
        if not given:
            return self.with_error(value, [self.distance(nearest, value)])
        total: Any = sum(given[1:], given[0])
        rounding = ROUNDING * xp.abs(value) + SMALLEST
        own = xp.where(total == 0, self.distance(nearest, value), rounding)
        return self.with_error(value, [total, own])

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
            return Bounded(
                self, value, None if kept.error is None else kept.error + nothing, is_zero=kept.is_zero
            )
        return self.rounded_once(value, (a.error, b.error))

    def product_of(self, a: Any, b: Any) -> Bounded:
        a, b = self.of(a), self.of(b)
        size, errors = self.plain.xp.abs, list[Any]()
        if a.error is not None:
            errors.append(a.error * (size(b.value) if b.error is None else size(b.value) + b.error))
        if b.error is not None:
            errors.append(b.error * size(a.value))
        return self.rounded_once(a.value * b.value, errors)

    def quotient_of(self, a: Any, b: Any) -> Bounded:
        a, b = self.of(a), self.of(b)
        xp, value, size = self.plain.xp, a.value / b.value, self.plain.xp.abs(b.value)
        errors: list[Any] = [] if a.error is None else [a.error / size]
        if b.error is None:
            return self.with_error(value, errors, 2 * ROUNDING, TINY)
        apart = sum(errors, xp.abs(value)) * b.error / (size - b.error)
        errors.append(xp.where(b.error > 0, apart, self.number(0.0)))
        return self.with_error(value, errors, 2 * ROUNDING, TINY, (size <= b.error) & (b.error > 0))

    def moved(self, move: Callable[[Any], Any], x: Bounded) -> Bounded:
        """Move elements, and errors with them."""
        return Bounded(self, move(x.value), None if x.error is None else move(x.error))

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
        anything = reduce(_either, [error == math.inf for error in errors]) if errors else None
        errors += [] if isinstance(least, float) else [least]
        return self.with_error(value, errors, relative, least if isinstance(least, float) else 0.0, anything)

    def is_bool(self, value: Any) -> bool:
        return str(value.dtype).endswith("bool")

    def ends(self, x: Bounded) -> tuple[Any, ...]:
        """Return what a kernel's values lie between; of bools what they are if not these."""
        return (x.value ^ x.error,) if self.is_bool(x.value) else (x.value + x.error, x.value - x.error)

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
        return self.with_error(value, errors, how.operand + how.by_length * length + ROUNDING)

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
        own = sum_roundoff(count) * total(xp.abs(value.value))
        error = own if value.error is None else own + self.summed(value.error, total)
        return self.with_error(found, [error / count if kind == "mean" else error], ROUNDING)

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


def _both(a: Any, b: Any) -> Any:
    return a & b


def _either(a: Any, b: Any) -> Any:
    return a | b


def sum_roundoff(count: int) -> float:
    """Return the error of a sum of so many terms in f32 by threads, relative to the sum of their sizes."""
    return ROUNDING * (2 + math.sqrt(count) / 8)


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
        return arrays.with_error(chosen, [error])

    def exp(self, x: Bounded) -> Bounded:
        """Raise: the argument's rounding counts as well, which grows with it."""
        size = self._xp.exp(x.value) * self._xp.abs(x.value)
        rounded = self._xp.where(self._xp.isfinite(size), size, self._arrays.number(0.0)) * ROUNDING
        return self._arrays.applied(self._xp.exp, (x,), FUNCTION, rounded + TINY)

    def log(self, x: Bounded) -> Bounded:
        return self._arrays.applied(self._xp.log, (x,), FUNCTION, ROUNDING)

    def sqrt(self, x: Bounded) -> Bounded:
        return self._arrays.applied(self._xp.sqrt, (x,), 2 * ROUNDING, TINY)

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

        errors = [sum_roundoff(int(x.shape[axis])) * total(xp.abs(x.value))]
        if x.error is not None:
            errors.append(arrays.summed(x.error, total))
        return arrays.with_error(total(x.value), errors)

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
