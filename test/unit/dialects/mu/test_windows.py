"""Convolutions and pooling: random geometry against torch, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from budget import examples
from builders import kernel, tensor
from geometries import convolutions, spread, text
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tensorlib import random, run

from mucc.dialects.mu import window_rules
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.rules import TypeRuleError
from mucc.dialects.mu.windows import Window

torch = pytest.importorskip("torch")
F = torch.nn.functional

GEOMETRIES = settings(max_examples=examples(60))


def on(dtype_of: str, shape: Any) -> str:
    return f"{dtype_of}[{', '.join(map(str, shape))}]"


def compared(expression: str, expected: Any, **operands: np.ndarray[Any, Any]) -> None:
    """That an expression of named tensors computes what torch did."""
    params = ", ".join(f"{name}: {on('f32', v.shape)}" for name, v in operands.items())
    mcu = f"kernel f({params}) -> {on('f32', expected.shape)} {{ return {expression} }}"
    (result,) = interpret_kernel(kernel(mcu), list(operands.values()))
    np.testing.assert_allclose(result, expected.numpy(), rtol=1e-10, atol=1e-10)


@GEOMETRIES
@given(convolutions())
def test_convolution(c: dict[str, Any]) -> None:
    axes, (inputs, outputs) = c["axes"], c["per_group"]
    x = random(c["batch"], c["groups"] * inputs, *c["extents"])
    w = random(c["groups"] * outputs, inputs, *c["sizes"])
    expression = (
        f"conv(x, w, stride={text(c['stride'])}, pad={text(c['pad'])}, dilation={text(c['dilation'])}, "
        f"groups={c['groups']})"
    )
    try:
        expected = getattr(F, f"conv{axes}d")(
            torch.from_numpy(x),
            torch.from_numpy(w),
            stride=spread(c["stride"], axes),
            padding=spread(c["pad"], axes),
            dilation=spread(c["dilation"], axes),
            groups=c["groups"],
        )
    except RuntimeError:
        with pytest.raises(TypeRuleError) as error:
            window_rules.conv(
                tensor(*x.shape),
                tensor(*w.shape),
                *(spread(c[n], axes) for n in ("stride", "pad", "dilation")),
                c["groups"],
            )
        assert error.value.code == "MU1101"
        return
    compared(expression, expected, x=x, w=w)


@GEOMETRIES
@given(convolutions(), st.data())
def test_transposed_convolution(c: dict[str, Any], data: st.DataObject) -> None:
    axes, (inputs, outputs) = c["axes"], c["per_group"]
    x = random(c["batch"], c["groups"] * inputs, *c["extents"])
    w = random(c["groups"] * inputs, outputs, *c["sizes"])
    stride, pad, dilation = (spread(c[name], axes) for name in ("stride", "pad", "dilation"))
    more = [data.draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True)]
    extents = [
        Window(k, s, p, d).spread(n, m)
        for n, k, s, p, d, m in zip(c["extents"], c["sizes"], stride, pad, dilation, more, strict=True)
    ]
    assume(min(extents) > 0)
    expected = getattr(F, f"conv_transpose{axes}d")(
        torch.from_numpy(x),
        torch.from_numpy(w),
        stride=stride,
        padding=pad,
        output_padding=tuple(more),
        dilation=dilation,
        groups=c["groups"],
    )
    expression = (
        f"conv_transpose(x, w, {text(stride)}, {text(pad)}, {text(more)}, {text(dilation)}, {c['groups']})"
    )
    compared(expression, expected, x=x, w=w)


@GEOMETRIES
@given(
    convolutions(), st.sampled_from(("max", "avg")), st.booleans(), st.booleans(), st.sampled_from((0, 1, 3))
)
def test_pooling(c: dict[str, Any], kind: str, ceil: bool, count_pad: bool, divisor: int) -> None:
    axes = c["axes"]
    pad = tuple(min(p, k // 2) for p, k in zip(spread(c["pad"], axes), c["sizes"], strict=True))
    stride, dilation = spread(c["stride"], axes), spread(c["dilation"], axes)
    if kind == "avg":
        dilation = (1,) * axes
    windows = [Window(*n) for n in zip(c["sizes"], stride, pad, dilation, strict=True)]
    assume(all(w.places(n, ceil) > 0 for w, n in zip(windows, c["extents"], strict=True)))
    # PyTorch's avg_pool3d refuses windows wider than the input, though padding gives them a place.
    wide = any(w.reach > n for w, n in zip(windows, c["extents"], strict=True))
    assume(not (kind == "avg" and axes == 3 and wide))
    x = random(c["batch"], 2, *c["extents"])
    given = f"x, {text(c['sizes'])}, stride={text(stride)}, pad={text(pad)}, ceil={'on' if ceil else 'off'}"
    value = torch.from_numpy(x)
    if kind == "max":
        expected = getattr(F, f"max_pool{axes}d")(value, tuple(c["sizes"]), stride, pad, dilation, ceil)
        compared(f"max_pool({given}, dilation={text(dilation)})", expected, x=x)
    else:
        function = getattr(F, f"avg_pool{axes}d")
        divisor = divisor if axes > 1 else 0
        more = (divisor,) if divisor else ()
        expected = function(value, tuple(c["sizes"]), stride, pad, ceil, count_pad, *more)
        flag = "on" if count_pad else "off"
        compared(f"avg_pool({given}, count_pad={flag}, divisor={divisor})", expected, x=x)


@pytest.mark.parametrize("extent, window", [(2, (3, 2, 0)), (1, (3, 3, 0)), (3, (5, 3, 1)), (1, (4, 9, 1))])
def test_a_window_that_does_not_fit_is_pooled_with_ceil(extent: int, window: tuple[int, int, int]) -> None:
    size, stride, pad = window
    x = random(2, 3, extent)
    given = f"x, {size}, stride={stride}, pad={pad}, ceil=on"
    value = torch.from_numpy(x)
    compared(f"max_pool({given})", F.max_pool1d(value, *window, ceil_mode=True), x=x)
    for count_pad in (True, False):
        expected = F.avg_pool1d(value, *window, ceil_mode=True, count_include_pad=count_pad)
        compared(f"avg_pool({given}, count_pad={'on' if count_pad else 'off'})", expected, x=x)


def test_both_libraries_agree() -> None:
    x, w, v = random(2, 4, 5, 6), random(6, 2, 3, 2), random(4, 3, 2, 2)
    run(
        """kernel f[N](x: f32[N, 4, 5, 6], w: f32[6, 2, 3, 2], v: f32[4, 3, 2, 2])
            -> (a: f32[N, 6, 5, 3], b: f32[N, 6, 11, 13], c: f32[N, 4, 2, 3], d: f32[N, 4, 3, 3])
        {
            return conv(x, w, stride=(1, 2), pad=(1, 0), groups=2),
                conv_transpose(x, v, stride=2, output_pad=1, groups=2),
                max_pool(x, 2),
                avg_pool(x, 2, ceil=on)
        }""",
        x,
        w,
        v,
    )


def test_dims_pass_through_windows_that_keep_them() -> None:
    x, w = random(2, 3, 5, 4), random(6, 3, 3, 1)
    (y,) = run(
        """kernel f[N, C, O, H, W](x: f32[N, C, H, W], w: f32[O, C, 3, 1]) -> f32[N, O, H, W] {
            return avg_pool(conv(x, w, pad=(1, 0)), 3, stride=1, pad=1)
        }""",
        x,
        w,
    )
    expected = F.avg_pool2d(F.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=(1, 0)), 3, 1, 1)
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-12)


def test_nan_is_a_maximum() -> None:
    (y,) = run(
        "kernel f(x: f32[1, 1, 4]) -> f32[1, 1, 2] { return max_pool(x, 2) }",
        np.array([[[np.nan, 1.0, 2.0, -np.inf]]]),
    )
    assert np.isnan(y[0, 0, 0])
    assert y[0, 0, 1] == 2


ONES = ((1, 1), (0, 0), (1, 1))


@given(*(st.integers(1, n) for n in (7, 5)), st.integers(0, 9), *(st.integers(1, n) for n in (4, 20, 20)))
def test_all_that_a_window_sees(
    size: int, stride: int, pad: int, dilation: int, extent: int, places: int
) -> None:
    window = Window(size, stride, pad, dilation)
    assert window.count_seen(extent, places) == sum(window.seen(extent, places))


def test_windows_of_many_positions_are_counted_at_once() -> None:
    assert Window(3, pad=2**30 - 2).count_seen(1, 2**31 - 5) == 3


@pytest.mark.parametrize(
    ("rule", "code", "message"),
    [
        (
            lambda: window_rules.conv(tensor("N", 8, 8), tensor(8, 8), *((n[0],) for n in ONES), 1),
            "MU1100",
            "weights f32[8, 8] of conv have 2 axes, but must have 3, as f32[N, 8, 8] has",
        ),
        (
            lambda: window_rules.conv(tensor("N", "C"), tensor(8, 8), *ONES, 1),
            "MU1100",
            "conv needs a tensor [N, C, ...] with 1 to 3 spatial axes, got f32[N, C]",
        ),
        (
            lambda: window_rules.conv(tensor("N", 6, 8, 8), tensor(8, 2, 1, 1), *ONES, 4),
            "MU1100",
            "weights f32[8, 2, 1, 1] of conv in 4 groups take 8 channels, but f32[N, 6, 8, 8] has 6",
        ),
        (
            lambda: window_rules.conv(tensor("N", 4, 8, 8), tensor(6, 1, 1, 1), *ONES, 4),
            "MU1100",
            "6 channels of conv cannot be divided into 4 groups",
        ),
        (
            lambda: window_rules.conv(tensor("N", 4, "H", 8), tensor(4, 4, 3, 1), *ONES, 1),
            "MU1091",
            "conv needs a number for the extent H of axis 2 of f32[N, 4, H, 8]",
        ),
        (
            lambda: window_rules.conv(tensor("N", 4, 2, 8), tensor(4, 4, 3, 1), *ONES, 1),
            "MU1101",
            "a window of 3 does not fit axis 2 of f32[N, 4, 2, 8], padded by 0",
        ),
        (
            lambda: window_rules.conv(
                tensor(1, 4, 4, 4, dtype="u8"), tensor(4, 4, 1, 1, dtype="u8"), *ONES, 1
            ),
            "MU1102",
            "operands of conv have dtypes u8 and u8, but must both be bf16, f16, f32, e4m3 or s8",
        ),
        (
            lambda: window_rules.conv_transpose(tensor(1, 4, 4), tensor(4, 4, 2), (2,), (0,), (2,), (1,), 1),
            "MU1101",
            "output_pad 2 must be below the stride or the dilation of axis 2",
        ),
        (
            lambda: window_rules.conv(tensor(1, 1, 3_000_000_000), tensor(1, 1, 3), (1,), (0,), (1,), 1),
            "MU1101",
            "positions of windows of conv along axis 2 of f32[1, 1, 3000000000] need more than 32 bits",
        ),
        (
            lambda: window_rules.conv(tensor(1, 1, "L"), tensor(1, 1, 3), (1,), (2**31,), (2**31,), 1),
            "MU1101",
            "positions of windows of conv along axis 2 of f32[1, 1, L] need more than 32 bits",
        ),
        (
            lambda: window_rules.conv_transpose(
                tensor(1, 1, 1), tensor(1, 1, 1), (2**32,), (0,), (0,), (1,), 1
            ),
            "MU1101",
            "positions of windows of conv_transpose along axis 2 of f32[1, 1, 1] need more than 32 bits",
        ),
        (
            lambda: window_rules.pool(tensor(1, 4, 8), (1,), (2**29,), (0,), (1,), False),
            "MU1101",
            "positions of windows of pooling along axis 2 of f32[1, 4, 8] need more than 32 bits",
        ),
        (
            lambda: window_rules.pool(tensor(1, 4, 4), (2,), (1,), (2,), (1,), False),
            "MU1101",
            "a pad of 2 is more than half of the window of 2 along axis 2",
        ),
        (
            lambda: window_rules.per_axis("stride", (1, 2), 3),
            "MU1095",
            "'stride' is [1, 2], but must be one integer, or 3, of at least 0",
        ),
    ],
)
def test_refusals(rule: Any, code: str, message: str) -> None:
    with pytest.raises(TypeRuleError) as error:
        rule()
    assert (error.value.code, error.value.message) == (code, message)
