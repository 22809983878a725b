"""Means of transposed convolutions that are computed of sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from budget import examples
from geometries import convolutions, spread, text
from hypothesis import assume, given, settings

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.windows import Window
from mucc.kernels.conv.op import ConvKernelOp
from mucc.kernels.conv.transposed_means import parts_of


def kernels(source: str) -> list[str]:
    compilation = compile_text(Source("k.mcu", source))
    return [op.name for program in compilation.programs for op in program.kernels]


@settings(max_examples=examples(25), deadline=None)
@given(convolutions())
def test_means_are_those_of_the_convolution(geometry: dict[str, Any]) -> None:
    axes, extents, sizes = geometry["axes"], geometry["extents"], geometry["sizes"]
    stride, pad, dilation = (spread(geometry[name], axes) for name in ("stride", "pad", "dilation"))
    places = [
        (e - 1) * s - 2 * p + d * (k - 1) + 1
        for e, s, p, d, k in zip(extents, stride, pad, dilation, sizes, strict=True)
    ]
    assume(min(places) > 0)
    x, w = f"f32[2, 3, {', '.join(map(str, extents))}]", f"f32[3, 2, {', '.join(map(str, sizes))}]"
    call = f"conv_transpose(x, w, stride={text(stride)}, pad={text(pad)}, dilation={text(dilation)})"
    over = tuple(range(2, axes + 2))
    source = f"""
kernel k(x: {x}, w: {w}, b: f32[2{", 1" * axes}]) -> (y: f32[2, 2], z: f32[2, 2{", 1" * axes}]) {{
    return mean(({call} + b) / 2, axis={text(over)}), sum({call} * b, axis={text(over)}, keepdims=on)
}}
"""
    try:
        compilation = compile_text(Source("k.mcu", source))
    except DiagnosticError:
        assume(False)
        return
    draw = np.random.default_rng(len(source))
    given_ = [draw.integers(-4, 5, shape).astype(float) for shape in ((2, 3, *extents), (3, 2, *sizes))]
    given_.append(draw.integers(-4, 5, (2, *(1,) * axes)).astype(float))
    wanted, got = (run("k", given_) for run in (compilation.interpret, compilation.interpret_lowered))
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("body", "is_sum"),
    [
        ("mean(conv_transpose(x, w), axis=(2, 3))", True),
        ("mean(conv_transpose(x, w, stride=2, pad=1, output_pad=1) * 2 - b, axis=(2, 3))", True),
        ("mean(relu(conv_transpose(x, w)), axis=(2, 3))", False),
        ("max(conv_transpose(x, w), axis=(2, 3))", False),
        ("mean(conv_transpose(x, w) * r, axis=(2, 3))", False),
        ("mean(conv(x, w), axis=(2, 3))", False),
        ("h = conv_transpose(x, w) return mean(h * h, axis=(2, 3))", False),
    ],
)
def test_affine_work_between_is_taken_along(body: str, is_sum: bool) -> None:
    body = body if "return" in body else f"return {body}"
    parameters = "x: f32[2, 8, 30, 30], w: f32[8, 8, 3, 3], b: f32[8, 1, 1], r: f32[32, 32]"
    found = kernels(f"kernel k({parameters}) -> f32[2, 8] {{ {body} }}")
    assert (ConvKernelOp.name not in found) is is_sum


def test_taps_that_bring_the_same_elements_are_one_part() -> None:
    assert [p.elements for p in parts_of(Window(3), 8, 10)] == [(0, 8)]
    assert [(p.taps, p.elements) for p in parts_of(Window(3, 2, 1), 8, 16)] == [
        ((0, 1), (1, 8)),
        ((1, 3), (0, 8)),
    ]
    assert [p.elements for p in parts_of(Window(3, 1, 1), 4, 4)] == [(1, 4), (0, 4), (0, 3)]
