"""The type rules of convolution and pooling: windows over the spatial axes of `[N, C, ...]`.

As in `rules`, each raises TypeRuleError with the code of the broken rule. A spatial extent is a number,
or a dim where as many elements come out as went in.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from mucc.dialects.mu.rules import TypeRuleError, shape_text
from mucc.dialects.mu.shape_rules import fixed, tensor
from mucc.dialects.mu.types import WIDE, Dim, Shaped, TensorType, dtype_name
from mucc.dialects.mu.windows import Window

SPATIAL = (1, 2, 3)
"""How many spatial axes there may be."""


def per_axis(name: str, value: int | Sequence[int], count: int, least: int = 0) -> tuple[int, ...]:
    """A number for each of `count` axes, given once for all or one by one. Raises TypeRuleError MU1095."""
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
    """How many spatial axes `[N, C, ...]` has. Raises TypeRuleError MU1100."""
    value = tensor(what, type)
    if (count := len(value.dims) - 2) not in SPATIAL:
        raise TypeRuleError(
            "MU1100",
            f"{what} needs a tensor [N, C, ...] with 1 to 3 spatial axes, got {value}",
            helps=("give it an axis more: `x[None, :, :]`",) if count == 0 else (),
        )
    return count


def windows(*numbers: Sequence[int]) -> list[Window]:
    """The window along each spatial axis, from sizes, strides, pads and dilations."""
    return [Window(*each) for each in zip(*numbers, strict=True)]


def _slid(what: str, value: Shaped, axis: int, window: Window, ceil: bool = False) -> Dim:
    """The extent after a window slid along an axis. Raises TypeRuleError MU1091, MU1101."""
    if window.keeps and not isinstance(value.dims[axis], int):
        return value.dims[axis]
    extent = fixed(what, value, axis)
    if (places := window.places(extent, ceil)) < 1:
        raise TypeRuleError(
            "MU1101",
            f"a window of {window.reach} does not fit axis {axis} of {value}, padded by {window.pad}",
        )
    return places


def _operands(what: str, operand: Attribute, weight: Attribute) -> tuple[Shaped, Shaped]:
    """Raises TypeRuleError MU1100 for axes, MU1102 for dtypes."""
    count = spatial(what, operand)
    x, w = Shaped.of(operand), tensor(what, weight)
    if len(w.dims) != len(x.dims):
        raise TypeRuleError(
            "MU1100",
            f"weights {w} of {what} have {len(w.dims)} axes, but must have {len(x.dims)}, as {x} has",
            notes=(f"two axes of channels, and {count} of the window",),
        )
    if x.element_type != w.element_type or x.element_type not in WIDE:
        raise TypeRuleError(
            "MU1102",
            f"operands of {what} have dtypes {dtype_name(x.element_type)} and {dtype_name(w.element_type)}, "
            "but must both be bf16, f16 or f32",
            helps=("convert them: `cast(..., f32)`",),
        )
    return x, w


def _times(what: str, value: Shaped, axis: int, groups: int) -> Dim:
    """An extent times the number of groups."""
    return value.dims[axis] if groups == 1 else fixed(what, value, axis) * groups


def _channels(what: str, x: Shaped, given: Dim, w: Shaped, divided: Dim, groups: int) -> None:
    """Raises TypeRuleError MU1100 where channels do not fit the weights, or not the groups."""
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
    """`[N, C, ...]` by `[O, C/groups, ...]` to `[N, O, ...]`, of the operands' dtype.

    Raises TypeRuleError MU1100 (axes, channels), MU1101 (windows), MU1102 (dtypes).
    """
    x, w = _operands("conv", operand, weight)
    _channels("conv", x, _times("conv", w, 1, groups), w, w.dims[0], groups)
    sizes = [fixed("conv", w, axis) for axis in range(2, len(w.dims))]
    slid = [
        _slid("conv", x, axis, window)
        for axis, window in enumerate(windows(sizes, stride, pad, dilation), start=2)
    ]
    return TensorType.of((x.dims[0], w.dims[0], *slid), x.element_type)


def conv_transpose(
    operand: Attribute,
    weight: Attribute,
    stride: Sequence[int],
    pad: Sequence[int],
    output_pad: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> TensorType:
    """`[N, C, ...]` by `[C, O/groups, ...]` to `[N, O, ...]`: the gradient of conv with respect to its input.

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
            spread.append(x.dims[axis])
            continue
        extent = window.spread(fixed(what, x, axis), more)
        if extent < 1:
            raise TypeRuleError("MU1101", f"a pad of {window.pad} leaves nothing of axis {axis} of {x}")
        spread.append(extent)
    return TensorType.of((x.dims[0], _times(what, w, 1, groups), *spread), x.element_type)


def pool(
    operand: Attribute,
    size: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> TensorType:
    """`[N, C, ...]` to the same with fewer places, of the same dtype. Raises TypeRuleError MU1100, MU1101."""
    spatial("pooling", operand)
    x = Shaped.of(operand)
    if x.element_type == i1:
        raise TypeRuleError("MU1021", "pooling of a bool", helps=("pool `cast(condition, f32)`",))
    slid: list[Dim] = []
    for axis, window in enumerate(windows(size, stride, pad, dilation), start=2):
        if 2 * window.pad > window.size:
            raise TypeRuleError(
                "MU1101",
                f"a pad of {window.pad} is more than half of the window of {window.size} along axis {axis}",
                notes=("else a window might see nothing but padding",),
            )
        slid.append(_slid("pooling", x, axis, window, ceil))
    return TensorType.of((*x.dims[:2], *slid), x.element_type)
