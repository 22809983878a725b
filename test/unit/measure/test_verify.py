"""The judge of `mucc run`: what a program rounds is allowed, what a kernel does wrong is found."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.interpreter import Interpreter, PythonValues, impl, register_impls

from mucc import frontend
from mucc.compiler.driver import Compilation, compile_text
from mucc.compiler.program import compile_source
from mucc.diagnostics import Source
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.interpreter import MuFunctions, interpret_kernel
from mucc.dialects.mu.ops.elementwise import ConstantOp, ElementwiseOp
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.ops.reduction import ReduceOp
from mucc.library.signature import Manifest
from mucc.measure.verify import Reference, Verdict, against, compare, references

ARRAYS = NumpyArrays()
SIZES = {"M": 48, "N": 64, "K": 64}

XW = "x: bf16[M, K], w: bf16[K, N], b: bf16[N]"
SQUARE = "v: bf16[N, N]"

PROGRAMS = {
    "minimum": (XW, "(y: f32[M, N], z: f32[])", "v0 = x @ w + b return v0, min(v0)"),
    "narrow minimum": (XW, "(y: bf16[M, N], z: f32[])", "v0 = x @ w + b return v0, min(v0)"),
    "softmax": (XW, "f32[M, N]", "return softmax(x @ w + b)"),
    "narrow softmax": (XW, "bf16[M, N]", "return softmax(x @ w + b)"),
    "chain": (f"{XW}, {SQUARE}", "f32[M, N]", "return (x @ w + b) @ v"),
    "attention": (f"{XW}, {SQUARE}", "f32[M, N]", "return attention(x @ w + b, v, v)"),
    "plain attention": (f"{XW}, {SQUARE}", "f32[M, N]", "return softmax((x @ w + b) @ v.T) @ v"),
    "cancelled": (XW, "f32[M, N]", "h = x @ w + b return h - 0.999 * max(h, min(h))"),
    "norm": (XW, "f32[M, N]", "h = x @ w + b return h / sum(h * h, axis=1, keepdims=on)"),
    "saturated": (XW, "s8[M, N]", "return 20 * (x @ w + b)"),
    "coarse": (XW, "e4m3[M, N]", "h = x @ w + b return h + min(h)"),
    "coarse number": (XW, "e5m2[]", "return min(x @ w + b)"),
    "f32": (XW.replace("bf16", "f32"), "f32[]", "return min(x @ w + b)"),
    "zero": (XW, "f32[]", "return sum(layer_norm(x @ w + b))"),
    "another order": (
        f"{XW}, {SQUARE}",
        "f32[M, N]",
        "return expm1(clamp(softplus((x @ w) @ v + b), -3, 3))",
    ),
    "pinned": (XW, "f32[M, N]", "stage h = x @ w + b return h - max(h, axis=1, keepdims=on)"),
}

MUTATIONS = {
    "missing bias": ("+ b", "+ 0 * b"),
    "shifted index": ("+ b", "+ roll(b, 1, axis=0)"),
    "lost k-block": ("x @ w", "x @ concat(w[:56], 0 * w[56:], axis=0)"),
    "shifted rows": ("x @ w", "roll(x, 1, axis=0) @ w"),
}


@cache
def compiled(parameters: str, results: str, body: str) -> Compilation:
    text = f"kernel f[M, N=64, K=64]({parameters}) -> {results} {{ {body} }}"
    return compile_text(Source("f.mcu", text))


def inputs_of(parameters: str, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    sizes = {"x": (48, 64), "w": (64, 64), "b": (64,), "v": (64, 64)}
    scale = {"x": 1.0, "w": 0.125, "b": 1.0, "v": 0.125}
    dtype = "f32" if "f32" in parameters else "bf16"
    return [
        ARRAYS.round_to(random.standard_normal(sizes[p.strip()[0]]) * scale[p.strip()[0]], dtype)
        for p in parameters.split("], ")
    ]


def judged(name: str, seed: int, results: list[Any] | None = None) -> list[Verdict]:
    """The verdicts on what device kernels make of the program, or on other results."""
    program = PROGRAMS[name]
    compilation, inputs = compiled(*program), inputs_of(program[0], seed)
    (info,) = Manifest.parse(compilation.manifest).kernels
    if results is None:
        results = compilation.interpret_lowered("f", inputs)
    outs = [ARRAYS.round_to(r, a.dtype) for r, a in zip(results, info.outputs, strict=True)]
    return [
        against(a.name, a.dtype, out, wanted, np)
        for a, out, wanted in zip(info.outputs, outs, references(compilation, info, inputs), strict=True)
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_rounds_is_good(name: str) -> None:
    for seed in range(3):
        assert all(v.good for v in judged(name, seed)), judged(name, seed)


UNSEEN = {(name, m) for name in ("coarse number", "zero") for m in MUTATIONS} | {("f32", "shifted rows")}
"""The least number, to two digits, is the same one; normalised rows have the sum 0 whatever they are; rows in
another order have the same minimum."""


@pytest.mark.parametrize(
    ("name", "mutation"), [(n, m) for n in PROGRAMS for m in MUTATIONS if (n, m) not in UNSEEN]
)
def test_a_wrong_kernel_is_found(name: str, mutation: str) -> None:
    parameters, results, body = PROGRAMS[name]
    old, new = MUTATIONS[mutation]
    source = Source(
        "f.mcu", f"kernel f[M, N=64, K=64]({parameters}) -> {results} {{ {body.replace(old, new)} }}"
    )
    program, sink = frontend.parse(source)
    (kernel,) = frontend.lower(program, sink).body.block.ops
    sink.raise_if_errors()
    assert isinstance(kernel, KernelOp)
    verdicts = judged(name, 0, interpret_kernel(kernel, inputs_of(parameters, 0)))
    assert not all(v.good for v in verdicts), verdicts


@pytest.mark.parametrize("dtype", ["s8", "u8", "e4m3", "e5m2"])
def test_one_step_at_a_tie_is_no_error_but_many_are(dtype: str) -> None:
    random = np.random.default_rng(5)
    ref = ARRAYS.round_to(np.abs(random.standard_normal((40, 40))) * 20 + 3, dtype)
    step = {"s8": 1.0, "u8": 1.0}.get(dtype)
    one = ref + (step or 2.0 ** (np.frexp(ref)[1] - 1 - {"e4m3": 3, "e5m2": 2}.get(dtype, 0)))
    few = random.random((40, 40)) < 0.02
    assert compare("y", dtype, np.where(few, one, ref), ref, np).good
    assert compare("y", dtype, one[:1, :1], ref[:1, :1], np).good
    assert not compare("y", dtype, one, ref, np).good
    twice = ref.copy()
    twice[3, 4] += 40
    assert not compare("y", dtype, twice, ref, np).good


# Kernels of f32 arithmetic


@register_impls
class Single(MuFunctions):
    """Compute as a kernel does: every step in f32, sums in some order."""

    @impl(ConstantOp)
    def constant(self, interpreter: Interpreter, op: ConstantOp, args: PythonValues) -> PythonValues:
        return (np.asarray(np.float32(op.value.value.data), dtype=np.float64),)

    def elementwise(self, op: ElementwiseOp, args: PythonValues) -> Any:
        return self._single(super().elementwise(op, args))

    def reduced_over(self, op: ReduceOp, value: Any) -> Any:
        axes, kind = op.axes.get_values(), op.kind.data.value
        if kind != "sum":
            return super().reduced_over(op, value)
        order = np.random.default_rng(value.size).permutation(value.shape[axes[0]])
        return (
            np.take(value.astype(np.float32), order, axes[0]).sum(axes, dtype=np.float32).astype(np.float64)
        )

    @staticmethod
    def _single(value: Any) -> Any:
        return value if value.dtype == bool else value.astype(np.float32).astype(np.float64)


X, XY = "x: f32[M, N]", "x: f32[M, N], y: f32[M, N]"

SINGLE = {
    "jumps": (X, "f32[M, N]", "return round(3 * x - 0.1317)"),
    "largest of jumps": (X, "f32[M]", "return max(floor(5 * x + 0.31), axis=1)"),
    "sum of jumps": (X, "f32[M]", "return sum(trunc(1.37 * x), axis=1)"),
    "comparison": (XY, "f32[M, N]", "return where(0.1 * x + y < 0.3 * y, x, 2)"),
    "pool of jumps": (
        "x: f32[M, N, 8, 8]",
        "f32[M, N, 3, 3]",
        "return max_pool(round(3 * x - 0.1317), 4, stride=2)",
    ),
    "any": (X, "f32[M]", "return where(any(0.1 * x > 0.21, axis=1), 1, 2)"),
    "where the largest is": (X, "s32[M]", "return argmax(0.1 * x, axis=1)"),
    "layer norm": (X, "f32[M, N]", "return layer_norm(x)"),
    "cancelled columns": (X, "f32[N]", "return sum(layer_norm(x), axis=0)"),
    "cancelled rows": (X, "f32[M]", "return sum(layer_norm(x), axis=1)"),
    "narrow norm": (X, "bf16[M, N]", "return layer_norm(x)"),
    "bytes": (X, "u8[M, N]", "return layer_norm(x)"),
    "softmax": (X, "f32[M, N]", "return softmax(x)"),
    "variance": (X, "f32[M]", "return var(x, axis=1)"),
    "running sum": (X, "f32[M, N]", "return cumsum(x, axis=1)"),
    "distances": (
        XY,
        "f32[]",
        "return mean(relu(sqrt(sum((x - y) * (x - y), axis=1)) - sqrt(sum(x * x, axis=1)) + 1))",
    ),
    "quotient": (XY, "f32[M, N]", "return x / y"),
    "pole": (XY, "f32[M]", "return 1 / (sum(x - y, axis=1) + sum(y, axis=1) - sum(x, axis=1))"),
    "sorted": (XY, "f32[M, N]", "return sort(0.1 * x + y, axis=1)"),
    "taken": (
        X,
        "f32[M, 1]",
        "return take_along(x, cast(argmax(0.1 * x, axis=1, keepdims=on), s32), axis=1)",
    ),
    "constant": (X, "f32[M, N]", "return 0.1 * x"),
    "constants": (X, "f16[M, N]", "return hardsigmoid(1.37 * x)"),
    "constant and jump": (X, "f32[M, N]", "return trunc(1.37 * x)"),
    "half on the way": ("x: bf16[M, N]", "f32[M]", "stage h = 0.3 * x return sum(h, axis=1)"),
}
"""Programs without products."""

SHAPES = {"x: f32[M, N, 8, 8]": (12, 5, 8, 8)}
EXTENTS = (12, 50)


def drawn(parameters: str, seed: int, factor: float, offset: float) -> list[Any]:
    random = np.random.default_rng(seed)
    shape = SHAPES.get(parameters, EXTENTS)
    dtype = "bf16" if "bf16" in parameters else "f32"
    count = parameters.count(":")
    return [ARRAYS.round_to(random.standard_normal(shape) * factor + offset, dtype) for _ in range(count)]


@cache
def open_program(name: str) -> Compilation:
    parameters, results, body = SINGLE[name]
    return compile_text(Source("f.mcu", f"kernel f[M, N]({parameters}) -> {results} {{ {body} }}"))


def single(compilation: Compilation, inputs: Sequence[Any]) -> Any:
    """The result of a kernel of f32 arithmetic."""
    op = next(op for op in compilation.stages.body.block.ops if isinstance(op, KernelOp))
    (result,) = interpret_kernel(op, inputs, Single)
    (info,) = Manifest.parse(compilation.manifest).kernels
    return ARRAYS.round_to(result, info.outputs[0].dtype)


def verdict_on(compilation: Compilation, inputs: Sequence[Any], out: Any) -> Verdict:
    (info,) = Manifest.parse(compilation.manifest).kernels
    (wanted,) = references(compilation, info, inputs)
    return against("y", info.outputs[0].dtype, out, wanted, np)


FACTORS, OFFSETS = st.sampled_from((1.0, 3.0, 0.01, -1.0)), st.sampled_from((0.0, 0.0, 100.0, 1e4))


@pytest.mark.parametrize("name", SINGLE)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**31), factor=FACTORS, offset=OFFSETS)
def test_arithmetic_in_f32_is_right(name: str, seed: int, factor: float, offset: float) -> None:
    compilation, inputs = open_program(name), drawn(SINGLE[name][0], seed, factor, offset)
    with np.errstate(all="ignore"):
        verdict = verdict_on(compilation, inputs, single(compilation, inputs))
    assert verdict.good, verdict


def test_means_of_windows_may_be_added_up_in_any_order() -> None:
    compilation = compile_text(
        Source("f.mcu", "kernel f[M](x: f32[M, 4, 9]) -> f32[M, 4, 3] { return avg_pool(x, 3) }")
    )
    x = np.random.default_rng(4).standard_normal((50, 4, 9)).astype(np.float32)
    inputs = [x.astype(np.float64)]
    backwards = ((x[..., 2::3] + x[..., 1::3] + x[..., ::3]) / np.float32(3)).astype(np.float64)
    assert verdict_on(compilation, inputs, backwards).good
    lost = ((x[..., 1::3] + x[..., ::3]) / np.float32(3)).astype(np.float64)
    assert not verdict_on(compilation, inputs, lost).good


@pytest.mark.parametrize(
    "body",
    ["mean(max(x, r), axis=2, keepdims=on) * 3.0", "avg_pool(max(x, r), 72) * 3.0"],
    ids=["mean", "pool"],
)
def test_equal_numbers_may_be_added_up_one_by_one(body: str) -> None:
    """Each rounding of the running sum may be the same, here to 3 steps more than different numbers lose."""
    text = f"kernel f[M](x: f32[M, 4, 72], r: f32[1]) -> f32[M, 4, 1] {{ return {body} }}"
    compilation, random = compile_text(Source("f.mcu", text)), np.random.default_rng(3)
    x, r = random.standard_normal((30, 4, 72)).astype(np.float32) - 5, np.array([1.6765709e-3], np.float32)
    inputs = [x.astype(np.float64), r.astype(np.float64)]

    def mean(count: int) -> Any:
        total = np.zeros((30, 4, 1), np.float32)
        for place in range(count):
            total = total + np.maximum(x[..., place : place + 1], r)
        return (total * np.float32(1 / 72) * np.float32(3)).astype(np.float64)

    assert verdict_on(compilation, inputs, mean(72)).good
    assert not verdict_on(compilation, inputs, mean(71)).good


def test_arguments_near_jumps_may_give_either_side() -> None:
    """Hundreds of the numbers that are drawn lie within a rounding of a jump."""
    compilation = open_program("jumps")
    ties = (np.arange(-300, 300).reshape(EXTENTS) + 0.5 + 0.1317) / 3
    inputs = [ARRAYS.round_to(ties, "f32")]
    out, exact = single(compilation, inputs), compilation.interpret("f", inputs)[0]
    assert (out != exact).sum() > 10, "the test shows nothing"
    assert verdict_on(compilation, inputs, out).good
    assert verdict_on(compilation, inputs, exact).good
    assert not verdict_on(compilation, inputs, np.where(out == out.max(), out + 2, out)).good, "two too far"


CLEAR = {
    "scaled": ("x: bf16[M, N]", "bf16[M, N]", "return 0.3 * x + 0.7"),
    "scaled f32": (X, "f32[M, N]", "return 0.3 * x"),
    "gelu": ("x: bf16[M, N]", "bf16[M, N]", "return gelu(x)"),
    "softmax": ("x: f16[M, N]", "f16[M, N]", "return softmax(x)"),
    "norm": ("x: bf16[M, N]", "bf16[M, N]", "return layer_norm(x)"),
    "sum": ("x: bf16[M, N]", "bf16[M, N]", "return x * sum(x * x, axis=1, keepdims=on)"),
    "pool": ("x: bf16[M, N]", "bf16[M, N]", "return max(x, -0.5 * x) + 1"),
}
"""Programs in which nothing cancels, so that results are known to a rounding."""


@cache
def clear_program(name: str) -> Compilation:
    parameters, results, body = CLEAR[name]
    return compile_text(Source("f.mcu", f"kernel f[M, N]({parameters}) -> {results} {{ {body} }}"))


DIGITS = {"bf16": 8, "f16": 11, "f32": 24}


@pytest.mark.parametrize("name", CLEAR)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**31), factor=FACTORS, data=st.data())
def test_a_planted_error_is_found(name: str, seed: int, factor: float, data: st.DataObject) -> None:
    compilation, dtype = clear_program(name), CLEAR[name][1].partition("[")[0]
    inputs = [ARRAYS.round_to(x, dtype) for x in drawn(CLEAR[name][0], seed, factor, 0.0)]
    out = single(compilation, inputs)
    assert verdict_on(compilation, inputs, out).good
    row, column = data.draw(st.integers(0, EXTENTS[0] - 1)), data.draw(st.integers(0, EXTENTS[1] - 1))
    ulp = 2.0 ** (np.frexp(np.abs(out[row, column]) + 1e-3)[1] - DIGITS[dtype])
    off = out.copy()
    off[row, column] = ARRAYS.round_to(off[row, column] + data.draw(st.sampled_from((4, -4))) * ulp, dtype)
    missing, shifted, swapped = out.copy(), out.copy(), out.copy()
    missing[row] = 0
    shifted[row] = np.roll(out[row], 1)
    swapped[[row, row - 1]] = out[[row - 1, row]]
    for wrong in (off, missing, shifted, swapped):
        verdict = verdict_on(compilation, inputs, wrong)
        assert verdict.beyond and not verdict.good


def test_a_lost_element_of_a_long_sum_is_found() -> None:
    compilation = open_program("half on the way")
    inputs = [ARRAYS.round_to(np.random.default_rng(3).standard_normal((4, 20_000)), "bf16")]
    out = single(compilation, inputs)
    assert verdict_on(compilation, inputs, out).good
    lost = [np.where(np.arange(20_000) == 777, 0, inputs[0])]
    assert not verdict_on(compilation, inputs, single(compilation, lost)).good


def test_a_program_that_was_lowered_wrong_is_found_whatever_it_rounds() -> None:
    ones = np.ones((8, 8))
    good = Reference(ones, ones, 1.25 * ones, ones, 1.5 * ones)
    assert against("y", "f32", ones * 1.4, good, np).good, "the roundings explain it"
    astray = against("y", "f32", ones * 1.5, good._replace(exact=1.5 * ones), np)
    assert astray.astray and not astray.good


def test_what_only_roundings_make_infinite_may_be_either() -> None:
    inf = np.inf
    exact = np.array([inf, inf, 1.0, 2.0])
    near = np.array([800.0, -inf, np.nan, 2.0])
    wanted = Reference(exact, exact, near, near, near)

    def judge(*out: float) -> bool:
        return against("y", "f32", np.array(out), wanted, np).good

    assert judge(*exact[:2], np.nan, 2.0) and judge(*near)
    assert not judge(-inf, inf, np.nan, 2.0), "of neither kind"
    assert not judge(inf, np.nan, np.nan, 2.0), "of neither kind"
    assert not judge(inf, inf, np.nan, inf), "both are finite"
    assert not judge(inf, inf, np.nan, 3.0), "another value"


def test_an_element_without_bounds_may_be_anything() -> None:
    exact = np.array([5.0, 1.0])
    wanted = Reference(exact, exact, exact, np.array([-np.inf, 1.0]), np.array([np.inf, 1.0]))
    for first in (np.nan, np.inf, -7.0):
        assert against("y", "f32", np.array([first, 1.0]), wanted, np).good
        assert not against("y", "f32", np.array([first, 1.5]), wanted, np).good


def test_stages_are_not_held_against_the_program_where_kernels_may_give_anything() -> None:
    value = np.array([1e-13, 1.0])
    low, high = np.array([-np.inf, 1.0]), np.array([np.inf, 1.0])
    wanted = Reference(value, np.array([-2e-13, 1.0]), value, low, high)
    assert against("y", "f32", value, wanted, np).good
    assert against("y", "f32", value, wanted._replace(exact=np.array([np.inf, 1.0])), np).good
    assert against("y", "f32", value, wanted._replace(exact=np.array([1e-13, 1.5])), np).astray


CONSTANT_ROWS = """kernel f(x: f32[2, 256]) -> f32[2, 256] {
    return layer_norm(batch_norm(max(x, sum(abs(x), axis=-1, keepdims=on))), axis=-1)
}"""
"""The sum is the maximum of each row, so that all elements of a row are equal, and 0 after the last norm.
Sums of two rows that are nearly equal cancel, and the bound of the variance is larger than its epsilon."""


def test_norms_of_equal_elements_are_bounded_and_mean_what_the_program_does() -> None:
    compilation = compile_source(Source("f.mcu", CONSTANT_ROWS), "sm_90a", dims={}, tuned=False)
    (info,) = Manifest.parse(compilation.manifest).kernels
    for seed in range(6):
        x = np.repeat(np.random.default_rng(seed).standard_normal((1, 256)), 2, axis=0)
        x[1, 0] += 0.01
        x = ARRAYS.round_to(x, "f32")
        (wanted,) = references(compilation, info, [x])
        assert np.isfinite(wanted.low).all() and np.isfinite(wanted.high).all()
        (out,) = compilation.interpret_lowered("f", [x])
        assert against("out", "f32", out, wanted, np).good
        assert not against("out", "f32", out + 1000, wanted, np).good


def test_the_worst_element_is_named() -> None:
    exact = np.arange(6.0).reshape(2, 3)
    verdict = against("y", "f32", exact + (exact == 4), Reference(exact, exact, exact, exact, exact), np)
    assert verdict.beyond == 1 and verdict.example == "[1, 1] is 5, right is 4 to 4"


def test_kernels_without_tensors_to_read_are_judged_on_any_device() -> None:
    torch = pytest.importorskip("torch")
    source = "kernel f[M=8](a: f32) -> (i: s32[M], y: f32[M]) { return iota((M,), 0), full((M,), 3) * a }"
    compilation = compile_text(Source("f.mcu", source))
    (info,) = Manifest.parse(compilation.manifest).kernels
    outs = [torch.arange(8.0, dtype=torch.float64), torch.full((8,), 1.5, dtype=torch.float64)]
    for out, dtype, wanted in zip(outs, ("s32", "f32"), references(compilation, info, [0.5]), strict=True):
        assert against("y", dtype, out, wanted, torch).good
        assert not against("y", dtype, out + 1, wanted, torch).good
