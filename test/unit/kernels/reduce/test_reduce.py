"""Reduction kernels: what joins them, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import device_kernels, kernel_names
from on_host import Program, program_of, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.reduce.op import ReduceKernelOp

KERNELS = """
kernel rows[M, N](x: bf16[M, N], b: f32[M]) -> (y: bf16[M], z: f32[M]) {
  return cast(relu(sum(x * 2, axis=1) - b), bf16), max(x, axis=1)
}
kernel columns[M, N](x: f32[M, N], b: f32[N]) -> (y: f32[N], z: f32[N]) {
  return sum(x, axis=0) * b + min(x, axis=0), amax(x, axis=0)
}
kernel middle[B, M, N](x: f16[B, M, N], y: f16[B, M, N]) -> f32[B, N] { return sum(x * y, axis=1) + 1 }
kernel outer[B, M, N](x: bf16[B, M, N], g: f32[M]) -> f32[M] { return max(x, axis=(0, 2)) * g }
kernel leading[B, M, N](x: f32[B, M, N]) -> f32[N] { return amax(x, axis=(0, 1)) }
kernel whole[B, M, N](x: f32[B, M, N], y: bf16[B, M, N]) -> f32[] { d = x - y return sum(d * d) * 2 }
kernel indices[B, M, N](
  x: bf16[M, N], y: f32[B, M, N]
) -> (a: s32[M], b: s32[N], c: s32[B, N], d: s32[B, M]) {
  return argmax(x, axis=1), argmin(x, axis=0) + 1, argmax(y * 3, axis=1), argmin(-y, axis=2)
}
kernel integers[M, N](x: s32[M, N]) -> (a: s32[M], b: s32[M], c: s32[M], d: s32[N]) {
  return argmax(x, axis=1), sum(x, axis=1), max(x, axis=1) * argmin(x, axis=1), argmin(x, axis=0)
}
kernel products[M, N](x: s8[M, N], y: s32[M, N]) -> (a: s32[N], b: s32[N]) {
  return prod(cast(x, s32), axis=0), prod(y, axis=0)
}
kernel logical[M, N](x: f32[M, N]) -> (a: f32[M], b: f32[M]) {
  return cast(any(x > 1, axis=1), f32), cast(all(x > -1, axis=1), f32)
}
kernel turned[M, N](x: f32[M, N] col_major, v: f32[N]) -> f32[M] { return sum(x * v, axis=1) }
kernel odd_halves(x: bf16[24, 7, 7], r: f32[24]) -> (a: f32[24], b: f32[24]) {
  return sum(x, axis=(1, 2)) + r, max(x, axis=(1, 2))
}
kernel odd_short(x: f32[40, 3], y: f32[40, 3]) -> f32[40] { return sum(x * y, axis=1) }
kernel odd_indices(x: f32[8, 601], y: bf16[8, 601]) -> (a: s32[8], b: s32[8], c: f32[8]) {
  return argmax(x, axis=1), argmin(y, axis=1), min(x, axis=1)
}
kernel odd_block(x: f32[4, 9001], s: f32[4]) -> f32[4] { return sum(x * s[:, None], axis=1) }
kernel odd_shared(x: f32[4, 70001]) -> (a: f32[4], b: s32[4]) { return amax(x, axis=1), argmin(x, axis=1) }
kernel odd_end(x: f32[3, 601]) -> f32[3] { return sum(x, axis=1) }
kernel odd_weights(x: f32[4, 601], w: f32[601]) -> f32[4] { return sum(x * w, axis=1) }
kernel picked[M, N](x: f32[M, N], w: f32[N, M], rows: s32[M]) -> f32[M] {
  return sum(x, axis=1) + gather(w, rows)[:, 0]
}
"""

SHAPES = [
    (1, 1, 1),
    (2, 3, 8),
    (3, 7, 5),
    (2, 1, 257),
    (1, 300, 16),
    (2, 40, 33),
    (1, 5, 4096),
    (2, 700, 1),
    (1, 2100, 8),
    (4, 3, 1300),
    (130, 2, 64),
    (2, 3, 9001),
    (1, 2, 40000),
    (1, 9000, 3),
]


program = program_of(KERNELS)


@pytest.mark.parametrize("processors", [0, 8], ids=["one block a result", "blocks share results"])
def test_every_form_agrees_with_the_interpreter(program: Program, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    for info in program.kernels:
        for seed, shape in enumerate(SHAPES if info.dims else SHAPES[:2]):
            sizes = dict(zip("BMN", shape, strict=True))
            run(program, info, {name: sizes[name] for name in info.dims}, seed)


EXTREMES = """
kernel extremes[M, N](x: f32[M, N]) -> (a: s32[M], b: s32[M], c: f32[M], d: f32[M], e: f32[M]) {
  return argmax(x, axis=1), argmin(x, axis=1), max(x, axis=1), min(x, axis=1), amax(x, axis=1)
}
kernel down[M, N](x: f32[M, N]) -> (a: s32[N], b: s32[N], c: f32[N], d: f32[N], e: f32[N]) {
  return argmax(x, axis=0), argmin(x, axis=0), max(x, axis=0), min(x, axis=0), amax(x, axis=0)
}
"""
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, 1.0)


def test_nan_and_infinities_are_as_in_torch(tmp_path: Path) -> None:
    compilation = compile_text(Source("k.mcu", EXTREMES))
    program = Program.of(compilation, tmp_path)
    for name, axis in (("extremes", 1), ("down", 0)):
        for floats in (SPECIAL, SPECIAL[1:], SPECIAL[2:3], (-0.0, 0.0)):
            x = np.random.default_rng(0).choice(np.array(floats), (9, 40))
            t = torch.from_numpy(x)
            expected = [f(t, dim=axis).numpy() for f in (torch.argmax, torch.argmin, torch.amax, torch.amin)]
            expected.append(torch.amax(t.abs(), dim=axis).numpy())
            for got, want in zip(compilation.interpret(name, [x]), expected, strict=True):
                np.testing.assert_array_equal(got, want)
            info = next(info for info in program.kernels if info.name == name)
            for dims in ({"M": 9, "N": 40}, {"M": 1200, "N": 3}, {"M": 2, "N": 1}):
                run(program, info, dims, seed=1, floats=floats)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return mean(x, axis=1)", ["reduce"]),
        ("return sqrt(sum(x * x, axis=1)) * b + b", ["reduce"]),
        ("return log(sum(exp(x), axis=0))", ["reduce"]),
        ("return sum(x, axis=1) / max(y, axis=1)", ["reduce", "reduce"]),
        ("return sum(x * y, axis=1) / (sum(x * x, axis=1) * sum(y * y, axis=1))", ["reduce"]),
        ("return sum(x, axis=1) + sum(x, axis=0)", ["reduce", "reduce"]),
        ("m = max(x, axis=1) return sum(x - m[:, None], axis=1) + m", ["normalize"]),
        ("return cast(argmax(x, axis=1), f32) + max(x, axis=1)", ["reduce"]),
        ("return sum(relu(x @ y), axis=1) * 2", ["gemm", "map"]),
        ("return sum(x @ y, axis=1) * 2", ["reduce", "reduce"]),
        ("return cast(any(x > 0, axis=1), f32)", ["reduce"]),
        ("stage s = sum(x, axis=1) return s * 2", ["reduce", "map"]),
        ("return sum(cumsum(x, axis=1), axis=1) + b", ["scan", "reduce"]),
    ],
)
def test_what_one_kernel_computes(body: str, expected: list[str]) -> None:
    text = f"kernel k[M](x: f32[M, M], y: f32[M, M], b: f32[M]) -> f32[M] {{ {body} }}"
    assert kernel_names(text) == expected


def test_the_kernel_op_is_printed_and_verified() -> None:
    (op,) = device_kernels("kernel k[M](x: f32[M, M]) -> s32[M] { return argmax(x, axis=1) + 1 }")
    assert isinstance(op, ReduceKernelOp)
    assert "cutlass.arg_reduced argmax" in str(op)
    (found,) = op.reductions
    two = ReduceKernelOp("s", op.extents, (0, 1), op.body.clone())
    with pytest.raises(Exception, match="is along one axis, not 2"):
        two.verify_()
    found.result.replace_all_uses_with(found.value)
    found.detach()
    with pytest.raises(Exception, match="reduces nothing"):
        op.verify_()
