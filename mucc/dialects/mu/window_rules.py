"""Type rules of convolution and pooling: windows over the spatial axes of `[N, C, ...]`.

As in `rules`, each function infers a result type, and raises TypeRuleError with the code of the broken rule.
A spatial extent must be a number, unless the window keeps the extent.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute

from mucc.dialects.mu.rules import TypeRuleError, shape_text
from mucc.dialects.mu.shape_rules import fixed, tensor
from mucc.dialects.mu.types import DTYPES, WIDE, Dim, Shaped, TensorType, dtype_name
from mucc.dialects.mu.windows import Window

NARROW = (DTYPES["e4m3"], DTYPES["s8"])
"""The dtypes of 8 bits that convolutions multiply, with results of f32."""

SPATIAL = (1, 2, 3)
"""The supported numbers of spatial axes."""


def per_axis(name: str, value: int | Sequence[int], count: int, least: int = 0) -> tuple[int, ...]:
    """Expand one number for all axes, or check `count` numbers. Raises TypeRuleError MU1095."""
    numbers = (value,) * count if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers *= count
    if len(numbers) != count or any(n < least for n in numbers):
        raise TypeRuleError(
            "MU1095",
            f"'{name}' is {value if isinstance(value, int) else shape_text(value)}, but must be one integer, "
            f"or {count}, of at least {least}",
        )
    return numbers


def spatial(what: str, type: Attribute) -> int:
    """Count the spatial axes of `[N, C, ...]`. Raises TypeRuleError MU1100."""
    value = tensor(what, type)
    if (count := len(value.dims) - 2) not in SPATIAL:
        raise TypeRuleError(
            "MU1100",
            f"{what} needs a tensor [N, C, ...] with 1 to 3 spatial axes, got {value}",
            helps=("give it an axis more: `x[None, :, :]`",) if count == 0 else (),
        )
    return count


def windows(*numbers: Sequence[int]) -> list[Window]:
    """Build the window of each spatial axis from sizes, strides, pads and dilations."""
    return [Window(*each) for each in zip(*numbers, strict=True)]


def _within_32_bits(what: str, value: Shaped, axis: int, window: Window, extent: int) -> None:
    """Check that 32 bits hold the positions of a window along an extent. Raises TypeRuleError MU1101."""
    if window.is_beyond(extent):
        raise TypeRuleError(
            "MU1101",
            f"positions of windows of {what} along axis {axis} of {value} need more than 32 bits",
            notes=(f"a window of {window.reach} moves by {window.stride}, with {window.pad} at both ends",),
        )


def _window_positions(what: str, value: Shaped, axis: int, window: Window, ceil: bool = False) -> Dim:
    """Compute the number of positions of a window along an axis. Raises TypeRuleError MU1091, MU1101."""
    if window.keeps and not isinstance(value.dims[axis], int):
        _within_32_bits(what, value, axis, window, 1)
        return value.dims[axis]
    extent = fixed(what, value, axis)
    _within_32_bits(what, value, axis, window, extent)
    if (places := window.places(extent, ceil)) < 1:
        raise TypeRuleError(
            "MU1101",
            f"a window of {window.reach} does not fit axis {axis} of {value}, padded by {window.pad}",
        )
    return places


def _operands(what: str, operand: Attribute, weight: Attribute) -> tuple[Shaped, Shaped]:
    """Check the operands of a convolution. Raises TypeRuleError MU1100 for axes, MU1102 for dtypes."""
    count = spatial(what, operand)
    x, w = Shaped.of(operand), tensor(what, weight)
    if len(w.dims) != len(x.dims):
        raise TypeRuleError(
            "MU1100",
            f"weights {w} of {what} have {len(w.dims)} axes, but must have {len(x.dims)}, as {x} has",
            notes=(f"two axes of channels, and {count} of the window",),
        )
    if x.element_type != w.element_type or x.element_type not in (*WIDE, *NARROW):
        raise TypeRuleError(
            "MU1102",
            f"operands of {what} have dtypes {dtype_name(x.element_type)} and {dtype_name(w.element_type)}, "
            "but must both be bf16, f16, f32, e4m3 or s8",
            helps=("convert them: `cast(..., f32)`",),
        )
    return x, w


def convolved_type(operands: Attribute) -> Attribute:
    """Return the dtype of a convolution of operands of a dtype: their own, and f32 for e4m3 and s8."""
    return f32 if operands in NARROW else operands


def _extent_times(what: str, value: Shaped, axis: int, groups: int) -> Dim:
    """Multiply an extent by the number of groups."""
    return value.dims[axis] if groups == 1 else fixed(what, value, axis) * groups


def _channels(what: str, x: Shaped, given: Dim, w: Shaped, divided: Dim, groups: int) -> None:
    """Check channels against weights and groups. Raises TypeRuleError MU1100."""
    if given != x.dims[1]:
        raise TypeRuleError(
            "MU1100",
            f"weights {w} of {what} in {groups} groups take {given} channels, but {x} has {x.dims[1]}",
        )
    if groups < 1 or (groups > 1 and (not isinstance(divided, int) or divided % groups)):
        raise TypeRuleError("MU1100", f"{divided} channels of {what} cannot be divided into {groups} groups")


def conv(
    operand: Attribute,
    weight: Attribute,
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TensorType:
    """Infer the convolution of `[N, C, ...]` with `[O, C/groups, ...]`: `[N, O, ...]`.

    The result has the operands' dtype, or f32 where they are e4m3 or s8.
    Raises TypeRuleError MU1100 (axes, channels), MU1101 (windows), MU1102 (dtypes).
    """
    x, w = _operands("conv", operand, weight)
    _channels("conv", x, _extent_times("conv", w, 1, groups), w, w.dims[0], groups)
    sizes = [fixed("conv", w, axis) for axis in range(2, len(w.dims))]
    extents = [
        _window_positions("conv", x, axis, window)
        for axis, window in enumerate(windows(sizes, stride, pad, dilation), start=2)
    ]
    return TensorType.of((x.dims[0], w.dims[0], *extents), convolved_type(x.element_type))


def conv_transpose(
    operand: Attribute,
    weight: Attribute,
    stride: Sequence[int],
    pad: Sequence[int],
    output_pad: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TensorType:
    """Infer the transposed convolution of `[N, C, ...]` with `[C, O/groups, ...]`: `[N, O, ...]`.

    Raises TypeRuleError MU1100 (axes, channels), MU1101 (windows), MU1102 (dtypes).
    """
    what = "conv_transpose"
    x, w = _operands(what, operand, weight)
    _channels(what, x, w.dims[0], w, x.dims[1], groups)
    sizes = [fixed(what, w, axis) for axis in range(2, len(w.dims))]
    spread: list[Dim] = []
    for axis, (window, more) in enumerate(
        zip(windows(sizes, stride, pad, dilation), output_pad, strict=True), start=2
    ):
        if more >= max(window.stride, window.dilation):
            raise TypeRuleError(
                "MU1101", f"output_pad {more} must be below the stride or the dilation of axis {axis}"
            )
        if window.keeps and not more and not isinstance(x.dims[axis], int):
            _within_32_bits(what, x, axis, window, 1)
            spread.append(x.dims[axis])
            continue
        extent = window.spread(fixed(what, x, axis), more)
        if extent < 1:
            raise TypeRuleError("MU1101", f"a pad of {window.pad} leaves nothing of axis {axis} of {x}")
        _within_32_bits(what, x, axis, window, extent)
        spread.append(extent)
    dims = (x.dims[0], _extent_times(what, w, 1, groups), *spread)
    return TensorType.of(dims, convolved_type(x.element_type))


def pool(
    operand: Attribute,
    size: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> TensorType:
    """Infer pooling of `[N, C, ...]`: the same with other spatial extents.

    Raises TypeRuleError MU1100, MU1101.
    """
    spatial("pooling", operand)
    x = Shaped.of(operand)
    if x.element_type == i1:
        raise TypeRuleError("MU1021", "pooling of a bool", helps=("pool `cast(condition, f32)`",))
    extents: list[Dim] = []
    for axis, window in enumerate(windows(size, stride, pad, dilation), start=2):
        if 2 * window.pad > window.size:
            raise TypeRuleError(
                "MU1101",
                f"a pad of {window.pad} is more than half of the window of {window.size} along axis {axis}",
                notes=("else a window might see nothing but padding",),
            )
        extents.append(_window_positions("pooling", x, axis, window, ceil))
    return TensorType.of((*x.dims[:2], *extents), x.element_type)
