"""Values with bounds of the error that a device kernel may make, and constants of the arithmetic that makes
it (`bounded`).
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mucc.dialects.mu.bounded import BoundedArrays

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
    may be either. `is_zero` values are constants that sums leave out. No kernel's value is below `least`, as
    for squares and their sums, which are 0 or more: a variance is so, even where its error exceeds its size.
    """

    __slots__ = ("arrays", "error", "is_zero", "least", "value")
    __hash__ = None  # pyright: ignore[reportAssignmentType]  # comparisons give arrays

    def __init__(
        self,
        arrays: BoundedArrays,
        value: Any,
        error: Any = None,
        *,
        is_zero: bool = False,
        least: float = -math.inf,
    ):
        self.arrays, self.value, self.error = arrays, value, error
        self.is_zero, self.least = is_zero, least

    @property
    def shape(self) -> Any:
        return self.value.shape

    @property
    def bound(self) -> Any:
        """The error as an array of the values' shape."""
        return self.arrays.plain.xp.zeros_like(self.value) if self.error is None else self.error

    def at_least(self, least: float) -> Bounded:
        """Return the same values, none of which a kernel computes as less than `least`."""
        return Bounded(self.arrays, self.value, self.error, is_zero=self.is_zero, least=least)

    def tolist(self) -> Any:
        return self.value.tolist()

    def reshape(self, *shape: Any) -> Bounded:
        return self.arrays.moved(lambda t: t.reshape(*shape), self)

    def __getitem__(self, index: Any) -> Bounded:
        return self.arrays.moved(lambda t: t[index], self)

    def __setitem__(self, index: Any, given: Bounded) -> None:
        self.is_zero, self.least = False, min(self.least, given.least)
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


def _both(a: Any, b: Any) -> Any:
    return a & b


def root_of_least(x: Bounded) -> float:
    """Return what no kernel's square root of a value is below."""
    return math.sqrt(x.least) * (1 - 2 * FUNCTION) if 0 <= x.least < LARGEST else 0.0
