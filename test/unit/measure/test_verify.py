"""The judge of `mucc run`: what a program rounds is allowed, what a kernel does wrong is found."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from mucc import frontend
from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.library.signature import Manifest
from mucc.measure.verify import Verdict, against, compare, references

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
