"""Type rules of operations that move elements: reshape, permute, slice, concat, pad, flip, roll.

As in `rules`, each function infers a result type, and raises TypeRuleError with the code of the broken rule.
An extent that follows from run-time dims by sums, products and exact quotients is arithmetic on these dims
(`mucc.library.extents`); where it follows in another way, it must be a number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from mucc.dialects.mu.rules import TypeRuleError, normalise_axes, promote, shape_text
from mucc.dialects.mu.types import DTYPES, PACKED, Dim, Dims, Shaped, TensorType, dtype_name
from mucc.library.extents import (
    ExtentError,
    Polynomial,
    add,
    at_least,
    divide,
    multiply,
    names,
    polynomial,
    subtract,
)


def tensor(what: str, type: Attribute, rank: int = 1) -> Shaped:
    """Check an operand of an operation on tensors.

    Raises TypeRuleError MU1092 for too few axes, s4 and u4.
    """
    value = Shaped.of(type)
    if dtype_name(value.element_type) in PACKED:
        raise TypeRuleError(
            "MU1092",
            f"{what} cannot move numbers of {value}, which share bytes",
            helps=("convert them first: `cast(..., bf16)`",),
        )
    if rank and (not isinstance(type, TensorType) or len(value.dims) < rank):
        axes = "an axis" if rank == 1 else f"{rank} axes"
        raise TypeRuleError("MU1092", f"{what} needs a tensor with at least {axes}, got {value}")
    return value


def fixed(what: str, value: Shaped, axis: int) -> int:
    """Return the extent of an axis as a number. Raises TypeRuleError MU1091 for a run-time dim."""
    extent = value.dims[axis]
    if isinstance(extent, int):
        return extent
    raise TypeRuleError(
        "MU1091",
        f"{what} needs a number for the extent {extent} of axis {axis} of {value}",
        notes=("the extent of the result is computed from it",),
        helps=(f"bind the dim: `[{', '.join(f'{name}=64' for name in names(extent))}]`",),
    )


def one_axis(axis: int, rank: int) -> int:
    """Convert an axis to its position from the front. Raises TypeRuleError MU1028."""
    return normalise_axes((axis,), rank)[0]


def reshape(operand: Attribute, dims: Dims) -> TensorType:
    """Check that `dims` have as many elements as the operand. Raises TypeRuleError MU1090."""
    value = tensor("reshape", operand, 0)
    if multiply(value.dims) != multiply(dims):
        raise TypeRuleError(
            "MU1090",
            f"{value} cannot be reshaped to {shape_text(dims)}: there are not as many elements",
            notes=(f"{multiply(value.dims)} elements are not {multiply(dims)}",),
        )
    return TensorType.of(dims, value.element_type)


def permute(operand: Attribute, order: Sequence[int]) -> TensorType:
    """Permute axes: axis i of the result is axis `order[i]`. Raises TypeRuleError MU1095, MU1028.

    Kernels that convert s4 and u4 also read them so; the language permutes what was converted.
    """
    value = Shaped.of(operand)
    if len(order) != len(value.dims):
        raise TypeRuleError("MU1095", f"permute needs {len(value.dims)} axes for {value}, got {len(order)}")
    normalise_axes(order, len(value.dims))
    return TensorType.of([value.dims[axis] for axis in order], value.element_type)


def slice_(operand: Attribute, axis: int, start: Dim, stop: Dim, step: int) -> TensorType:
    """Slice `start:stop:step` along an axis. Raises TypeRuleError MU1093.

    What is not known of run-time extents is promised: `slice_conditions`.
    """
    value = tensor("slice", operand)
    axis = one_axis(axis, len(value.dims))
    extent = value.dims[axis]
    try:
        slice_conditions(extent, start, stop)
    except ExtentError:
        fits = False
    else:
        fits = step >= 1
    if not fits:
        raise TypeRuleError(
            "MU1093",
            f"slice {start}:{stop}:{step} does not fit axis {axis} of {value}",
            notes=(f"0 <= start < stop <= {extent}, and the step is at least 1",),
        )
    return TensorType.of(_with(value.dims, axis, steps(subtract(stop, start), step)), value.element_type)


def slice_conditions(extent: Dim, start: Dim, stop: Dim) -> list[str]:
    """Return what must hold of dims for `start:stop` to lie within an extent.

    Raises ExtentError where it never does.
    """
    bounds = ((start, 0), (subtract(stop, start), 1), (subtract(extent, stop), 0))
    return [c for dim, least in bounds if (c := at_least(dim, least)) is not None]


def steps(length: Dim, step: int) -> Dim:
    """Return how many steps there are in a length, the last one possibly shorter.

    What the length owes to run-time dims must be a multiple of the step, so that `1:K:2` has K/2 elements:
    this is promised, as by any quotient of extents.
    """
    if isinstance(length, int):
        return -(-length // step)
    form = polynomial(length)
    short = -form.constant_term % (step * form.divisor)
    return divide(add(length, (Polynomial.number(short).over(form.divisor)).dim), step)


def _with(dims: Dims, axis: int, extent: Dim) -> Dims:
    return (*dims[:axis], extent, *dims[axis + 1 :])


def concat(operands: Sequence[Attribute], axis: int) -> TensorType:
    """Concatenate along an axis; dtypes promote. Raises TypeRuleError MU1094."""
    values = [tensor("concat", t) for t in operands]
    if not values:
        raise TypeRuleError("MU1094", "concat needs a tensor")
    axis = one_axis(axis, len(values[0].dims))
    for value in values[1:]:
        if len(value.dims) != len(values[0].dims) or _with(value.dims, axis, 0) != _with(
            values[0].dims, axis, 0
        ):
            raise TypeRuleError(
                "MU1094",
                f"{values[0]} and {value} cannot be concatenated along axis {axis}",
                notes=("all extents but that of the axis are the same",),
            )
    kinds = {v.element_type for v in values}
    element_type = kinds.pop() if len(kinds) == 1 else promote(operands)
    if len(values) == 1:
        return TensorType.of(values[0].dims, element_type)
    extent: Dim = 0
    for value in values:
        extent = add(extent, value.dims[axis])
    return TensorType.of(_with(values[0].dims, axis, extent), element_type)


def pad(operand: Attribute, low: Sequence[int], high: Sequence[int], mode: str) -> TensorType:
    """Add `low` and `high` elements to each axis. Raises TypeRuleError MU1095, MU1096.

    That a run-time extent has as many elements as are reflected or repeated is promised: `pad_conditions`.
    """
    value = tensor("pad", operand)
    rank = len(value.dims)
    if len(low) != rank or len(high) != rank:
        raise TypeRuleError("MU1095", f"pad needs {rank} numbers for {value}, got {len(low)} and {len(high)}")
    if value.element_type == i1:
        raise TypeRuleError("MU1021", "padding of a bool", helps=("pad `cast(condition, f32)`",))
    dims = list(value.dims)
    for axis in (i for i in range(rank) if low[i] or high[i]):
        extent = dims[axis]
        most = most_padding(extent, mode)
        try:
            fits = min(low[axis], high[axis]) >= 0
            pad_conditions(extent, low[axis], high[axis], mode)
        except ExtentError:
            fits = False
        if not fits:
            raise TypeRuleError(
                "MU1096",
                f"{low[axis]} and {high[axis]} elements cannot pad axis {axis} of {value} by {mode}",
                notes=(f"from 0 to {most}" if most is not None else "at least 0",),
                helps=("a slice, `x[:, 1:]`, cuts off",) if min(low[axis], high[axis]) < 0 else (),
            )
        dims[axis] = add(extent, low[axis] + high[axis])
    return TensorType.of(dims, value.element_type)


def most_padding(extent: Dim, mode: str) -> Dim | None:
    """Return the most elements that a mode can pad an extent with on one side; None without a limit."""
    return {"reflect": subtract(extent, 1), "circular": extent}.get(mode)


def pad_conditions(extent: Dim, low: int, high: int, mode: str) -> list[str]:
    """Return what must hold of dims for an extent to be padded. Raises ExtentError where it never does."""
    most = most_padding(extent, mode)
    condition = None if most is None else at_least(most, max(low, high))
    return [] if condition is None else [condition]


def roll(operand: Attribute, shift: int, axis: int) -> TensorType:
    """Keep the shape. Raises TypeRuleError MU1093.

    That a run-time extent is longer than the shift is promised: `roll_conditions`.
    """
    result = alike("roll", operand)
    extent = result.dims[one_axis(axis, len(result.dims))]
    try:
        roll_conditions(extent, shift)
    except ExtentError:
        raise TypeRuleError(
            "MU1093",
            f"the {extent} elements of axis {axis} cannot be moved by {shift} places",
            notes=("an extent that is known at run time only is longer than the shift",),
        ) from None
    return result


def roll_conditions(extent: Dim, shift: int) -> list[str]:
    """Return what must hold of a run-time extent to be longer than elements are moved.

    A known extent may be shorter. Raises ExtentError where a run-time extent always is.
    """
    condition = None if isinstance(extent, int) else at_least(extent, abs(shift) + 1)
    return [] if condition is None else [condition]


def alike(what: str, operand: Attribute, rank: int = 1) -> TensorType:
    """Return the shape and dtype of the operand, row-major."""
    value = tensor(what, operand, rank)
    return TensorType.of(value.dims, value.element_type)


def arg_reduce(what: str, operand: Attribute, axis: int) -> TensorType:
    """Drop the axis; the result is s32. Raises TypeRuleError MU1021, MU1028."""
    value = tensor(what, operand)
    if value.element_type == i1:
        raise TypeRuleError("MU1021", f"{what} of a bool", helps=("take `cast(condition, f32)`",))
    axis = one_axis(axis, len(value.dims))
    return TensorType.of((*value.dims[:axis], *value.dims[axis + 1 :]), DTYPES["s32"])


def iota(dims: Dims, axis: int) -> TensorType:
    """Return an s32 tensor of these extents. Raises TypeRuleError MU1028."""
    one_axis(axis, len(dims))
    return TensorType.of(dims, DTYPES["s32"])


def elements(dims: Sequence[Dim]) -> int | None:
    """Count the elements of fixed extents; None where an extent is a run-time dim."""
    numbers = [d for d in dims if isinstance(d, int)]
    return math.prod(numbers) if len(numbers) == len(dims) else None
