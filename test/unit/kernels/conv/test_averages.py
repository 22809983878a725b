"""Average pools that become part of the weights of the convolution before them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from convolutions import check_on_host
from geometries import text
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from mucc import frontend
from mucc.compiler.driver import Compilation, compile_text
from mucc.compiler.explain_fusion import explain
from mucc.diagnostics.core import Source
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.pooling import PoolOp
from mucc.dialects.mu.ops.shape import PadOp
from mucc.dialects.mu.windows import Window
from mucc.dialects.rewriting import rewrite
from mucc.kernels.conv import averaged
from mucc.kernels.conv.averaged import Axis, axis_of
from mucc.kernels.conv.op import Strategy
from mucc.target import get_target


def convolved(x: Any, w: Any, window: Window) -> Any:
    """Convolve a line by its definition."""
    padded = np.pad(x, window.pad)
    count = (len(padded) - (window.size - 1) * window.dilation - 1) // window.stride + 1
    taps = range(window.size)
    return np.array(
        [sum(padded[o * window.stride + t * window.dilation] * w[t] for t in taps) for o in range(count)]
    )


def spread(x: Any, w: Any, window: Window, more: int) -> Any:
    """Convolve a line in the transposed way by its definition, with `more` results at the end."""
    reach = (window.size - 1) * window.dilation + 1
    whole = np.zeros((len(x) - 1) * window.stride + reach + more)
    for i, t in itertools.product(range(len(x)), range(window.size)):
        whole[i * window.stride + t * window.dilation] += x[i] * w[t]
    return whole[window.pad : len(whole) - window.pad]


def by_one(x: Any, w: Any, axis: Axis) -> Any:
    """Sums of the windows of a pool by one convolution."""
    weights = np.zeros(axis.extent)
    for term in axis.terms:
        taps = w[term.first :: term.step][: term.taps]
        weights[term.place : term.place + term.taps] += taps[::-1] if term.turned else taps
    x = np.pad(x, (axis.low, max(axis.high, 0)))
    x = x[: len(x) + min(axis.high, 0)]
    return convolved(x, weights, Window(axis.extent, axis.stride, 0, axis.dilation))


@pytest.mark.parametrize("transposed", [False, True])
def test_one_line_convolved_once(transposed: bool) -> None:
    """All small windows: where there is one convolution for both, it has the sums of the pool."""
    draw, folded, sliced = np.random.default_rng(0), 0, 0
    small = itertools.product((1, 2, 3, 4), (1, 2, 3), (0, 1, 2), (1, 2), (2, 3), (1, 2, 3), (5, 8), (0, 1))
    for taps, stride, pad, dilation, size, apart, extent, more in small:
        window, pool = Window(taps, stride, pad, dilation), Window(size, apart)
        x, w = draw.integers(-4, 5, extent), draw.integers(-4, 5, taps)
        more = more if transposed and stride > 1 else 0
        result = spread(x, w, window, more) if transposed else convolved(x, w, window)
        places = (len(result) - size) // apart + 1
        if places < 1 or (axis := axis_of(window, pool, extent, places, transposed)) is None:
            continue
        wanted = [result[q * apart : q * apart + size].sum() for q in range(places)]
        np.testing.assert_array_equal(by_one(x, w, axis), wanted, f"{window} {pool} {extent}")
        folded, sliced = folded + 1, sliced + (axis.high < 0)
    assert folded > 100 and (sliced > 0) is transposed


def lowered(source: str) -> ModuleOp:
    program, sink = frontend.parse(Source("k.mcu", source))
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    return module


def compiled(source: str) -> Compilation:
    return compile_text(Source("k.mcu", source))


def results(module: ModuleOp, inputs: list[Any]) -> Any:
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    return interpret_kernel(kernel, inputs)[0]


def pools(module: ModuleOp) -> int:
    """How many pools there are, but for those of weights between zeros."""
    return sum(isinstance(op, PoolOp) and not isinstance(op.operand.owner, PadOp) for op in module.walk())


def folded(module: ModuleOp) -> ModuleOp:
    """The module with all averages folded, whatever that saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(averaged, "GAIN", float("inf"))
        rewrite(module, [averaged.Averages(get_target("sm_90a").facts)])
    return module


@settings(max_examples=examples(40), deadline=None)
@given(st.data(), st.integers(1, 3), st.booleans(), st.integers(1, 3))
def test_a_folded_average_is_that_of_the_convolution(
    data: st.DataObject, axes: int, transposed: bool, groups: int
) -> None:
    def numbers(low: int, high: int) -> list[int]:
        return data.draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes))

    extents, sizes, pad, pool = numbers(3, 6), numbers(1, 3), numbers(0, 1), numbers(1, 3)
    groups = 1 if transposed else groups
    stride, apart = numbers(1, 3), numbers(1, 3)
    apart = stride if transposed else apart
    assume(all(k > p for k, p in zip(sizes, pad, strict=True)) and max(pool) > 1)
    made = [
        (e - 1) * s - 2 * p + k if transposed else (e + 2 * p - k) // s + 1
        for e, s, p, k in zip(extents, stride, pad, sizes, strict=True)
    ]
    assume(all(m >= k for m, k in zip(made, pool, strict=True)))
    shape = [(m - k) // s + 1 for m, k, s in zip(made, pool, apart, strict=True)]
    x, w, b = [2, 2 * groups, *extents], [3 * groups, 2, *sizes], [3 * groups, *(1,) * axes]
    w = [2, 3, *sizes] if transposed else w
    name = "conv_transpose" if transposed else "conv"
    call = f"{name}(x, w, stride={text(stride)}, pad={text(pad)}, groups={groups}, compute=f32)"
    if data.draw(st.booleans()):
        body = f"avg_pool((b - {call}) * b / 2, {text(pool)}, stride={text(apart)})"
    else:
        body = f"avg_pool({call}, {text(pool)}, stride={text(apart)}, divisor=7)"
    module = lowered(
        f"kernel k(x: f32{x}, w: f32{w}, b: f32{b}) -> f32{[2, 3 * groups, *shape]} {{ return {body} }}"
    )
    draw = np.random.default_rng(len(body))
    inputs = [draw.integers(-4, 5, s).astype(float) for s in (x, w, b)]
    wanted = results(module.clone(), inputs)
    after = folded(module)
    assert pools(after) == 0
    np.testing.assert_allclose(results(after, inputs), wanted, 1e-5, 1e-5)


ON_HOST = """
kernel k(x: f32[2, 4, 13, 20], w: f32[6, 4, 3, 3], b: f32[6, 1, 1]) -> f32[2, 6, 3, 4] {
  return relu(avg_pool(conv(x, w, stride=2) + b, 2))
}
kernel t(x: f32[2, 4, 5, 7], w: f32[4, 6, 3, 3]) -> f32[2, 6, 5, 7] {
  return avg_pool(conv_transpose(x, w, stride=2, pad=1, output_pad=1), 2)
}
"""


X, W = "x: f32[16, 8, 64, 64], w: f32[32, 8, 3, 3]", "f32[16, 32, 31, 31]"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("avg_pool(conv(x, w), 2, pad=1)[:, :, :31, :31]", "zeros around the result are no convolution"),
        ("avg_pool(conv(x, w), 2, ceil=on)", "the last windows may not be whole"),
        ("avg_pool(relu(conv(x, w)), 2)", "no affine function between"),
        ("avg_pool(conv(x, w) * r, 2)", "other factors at other positions"),
        ("max_pool(conv(x, w), 2)", "no mean"),
        ("avg_pool(conv(x, w) + 1, 2, divisor=3)", "four shifts by a third"),
        ("h = conv(x, w) return avg_pool(h, 2) + h[:, :, :31, :31]", "read elsewhere"),
        ("avg_pool(conv_transpose(x, v), 2)[:, :, :31, :31]", "another stride"),
    ],
)
def test_what_is_no_convolution_is_kept(body: str, why: str) -> None:
    body = body if "return" in body else f"return {body}"
    assert (
        pools(folded(lowered(f"kernel k({X}, v: f32[8, 32, 3, 3], r: f32[62, 62]) -> {W} {{ {body} }}"))) == 1
    ), why


def test_averages_of_16_bit_weights_would_be_rounded() -> None:
    source = f"kernel k({X}) -> {W} {{ return avg_pool(conv(x, w), 2) }}"
    assert pools(folded(lowered(source.replace("f32", "bf16")))) == 1
    assert pools(folded(lowered(source))) == 0


LARGE = """
kernel k(x: f32[128, 8, 384, 384], w: f32[64, 8, 3, 3], b: f32[64, 1, 1]) -> f32[128, 64, 95, 95] {
    return sigmoid(avg_pool(conv(x, w) + b, 4))
}
"""
SMALL = """
kernel k(x: f32[16, 64, 128, 128], w: f32[64, 64, 3, 3]) -> f32[16, 64, 32, 32] {
    return avg_pool(conv(x, w, pad=1, stride=2), 2)
}
"""
SPREAD = """
kernel k(x: f32[32, 32, 16, 32, 32], w: f32[32, 64, 3, 3, 3]) -> f32[32, 64, 16, 32, 32] {
    return avg_pool(conv_transpose(x, w, stride=2, pad=1, output_pad=1), 2)
}
"""


def test_the_cost_model_decides() -> None:
    """A pool of 4x4 saves most results, and one of a transposed convolution all classes but one."""

    def convolution(source: str) -> str:
        (op,) = (o for p in compiled(source).programs for o in p.kernels if o.name == "cutlass.conv")
        return str(op)

    assert "stride [4, 4]" in (large := convolution(LARGE)) and "!mu.tensor<[64, 8, 6, 6], f32>" in large
    assert "stride [2, 2]" in convolution(SMALL)
    assert "transposed" not in (one := convolution(SPREAD)) and "stride [1, 1, 1]" in one


def test_the_fusion_is_explained() -> None:
    (fusion,) = explain(compiled(LARGE))
    assert "conv (avg_pool)" in fusion.as_text() and fusion.moved.at({}) < 1e9


@pytest.mark.long
def test_their_kernels_agree_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averaged, "GAIN", float("inf"))
    found = check_on_host(ON_HOST, Strategy.PATCHES, tmp_path, monkeypatch)
    assert all(op.pool is None and op.transposed is None for op in found)


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("avg_pool(conv(x, w, pad=1, compute=f32) * 2 + b, 2)", "2, 5, 4, 3"),
        ("avg_pool(conv(x, w, pad=1, stride=2, compute=f32), 3, stride=1)", "2, 5, 3, 2"),
        ("avg_pool(conv_transpose(x, v, stride=2, pad=1, compute=f32) + b, 2)", "2, 5, 8, 6"),
        ("avg_pool(conv_transpose(x, v, stride=2, output_pad=1, compute=f32), 3, stride=2)", "2, 5, 9, 7"),
    ],
)
def test_kernels_of_folded_averages(body: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is lowered has the values of the program, kernel by kernel, at odd extents."""
    monkeypatch.setattr(averaged, "GAIN", float("inf"))
    given_ = "x: f32[2, 3, 9, 7], w: f32[5, 3, 3, 3], v: f32[3, 5, 3, 3], b: f32[5, 1, 1]"
    compilation = compiled(f"kernel k({given_}) -> f32[{shape}] {{ return {body} }}")
    draw = np.random.default_rng(1)
    shapes = ((2, 3, 9, 7), (5, 3, 3, 3), (3, 5, 3, 3), (5, 1, 1))
    inputs = [draw.integers(-4, 5, s).astype(float) for s in shapes]
    wanted, got = (run("k", inputs) for run in (compilation.interpret, compilation.interpret_lowered))
    np.testing.assert_allclose(got[0], wanted[0], 1e-5, 1e-5)
