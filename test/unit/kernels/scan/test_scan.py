"""Scan kernels: what joins them, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from builders import device_kernels, kernel_names
from on_host import Program, program_of, run

from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source
from mucc.kernels.scan.op import ScanKernelOp

KERNELS = """
kernel plain[B, L](x: f32[B, L]) -> f32[B, L] { return cumsum(x, axis=1) }
kernel masked[B, L](x: bf16[B, L], m: s8[B, L]) -> f32[B, L] {
  return 2 * cumsum(where(m > 0, x, 0), axis=1, reverse=on) - x
}
kernel behind[B, L](x: s8[B, L]) -> s32[B, L] { return cumsum(x, axis=1, exclusive=on) * 3 }
kernel products[B, L](x: s32[B, L]) -> s32[B, L] { return cumprod(x, axis=1, reverse=on, exclusive=on) }
kernel down[B, L, D](x: f32[B, L, D], w: f32[D]) -> f32[B, L, D] { return cumsum(x, axis=1) * w }
kernel up[L, D](x: f16[L, D]) -> (y: f32[L, D], z: f32[L, D]) {
  s = cumsum(x + 1, axis=0, reverse=on, exclusive=on)
  return s, x + 1
}
kernel turned[B, L](x: f32[B, L] col_major) -> f32[B, L] { return cumprod(x, axis=0) }
kernel whole[L](x: f32[L]) -> f32[L] { return cumsum(x, axis=0, exclusive=on) }
"""

ROWS = [(3, 1), (5, 4), (300, 7), (9, 64), (2, 130), (3, 600), (2, 4096), (1, 8192), (2, 9000), (3, 20001)]
COLUMNS = [
    (1, 1, 1),
    (1, 3000, 4),
    (2, 9000, 1),
    (1, 1500, 3),
    (2, 5, 3),
    (1, 700, 33),
    (2, 300, 64),
    (1, 2100, 8),
    (3, 129, 132),
]


program = program_of(KERNELS)


@pytest.mark.parametrize("processors", [0, 4], ids=["one block a row", "blocks share rows"])
def test_every_form_agrees_with_the_interpreter(program: Program, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    for info in program.kernels:
        free = set(info.dims)
        if info.name == "whole":
            shapes = [{"L": length} for _, length in ROWS]
        elif "D" in free:
            shapes = [dict(zip("BLD", shape, strict=True)) for shape in COLUMNS]
        else:
            shapes = [dict(zip("BL", shape, strict=True)) for shape in ROWS]
        for seed, dims in enumerate(shapes):
            run(program, info, {name: dims[name] for name in free}, seed)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return relu(cumsum(2 * x, axis=0) + b)", ["scan"]),
        ("return cumsum(cumsum(x, axis=0), axis=1)", ["scan", "scan"]),
        ("return cumsum(x @ x, axis=1)", ["gemm", "scan"]),
        ("return cumsum(x, axis=1) @ x", ["scan", "gemm"]),
        ("y = cumsum(x, axis=1) return y / sum(y, axis=1)[:, None]", ["scan", "normalize"]),
        ("return cumsum(x, axis=1).T + x", ["scan", "map"]),
        ("stage h = cumprod(x, axis=1) return h + x", ["scan", "map"]),
    ],
)
def test_what_one_scan_computes(body: str, expected: list[str]) -> None:
    assert kernel_names(f"kernel k[M](x: bf16[M, M], b: bf16[M]) -> bf16[M, M] {{ {body} }}") == expected


def test_the_kernel_op_is_printed_and_verified() -> None:
    (op,) = device_kernels("kernel k[M](x: f32[M, M]) -> f32[M, M] { return cumsum(x, axis=0, reverse=on) }")
    assert isinstance(op, ScanKernelOp)
    assert 'cutlass.scan "out" sum space ["M", "M"] axis 0 : i64 reverse' in str(op)
    op.body.block.insert_op_before(op.running.clone(), op.running)
    with pytest.raises(Exception, match=r"has one cutlass\.running, not 2"):
        op.verify()


def test_sums_of_integers_wrap_around() -> None:
    text = "kernel k[L](x: s32[L]) -> s32[L] { return cumsum(x, axis=0) }"
    compilation = compile_text(Source("k.mcu", text))
    (got,) = compilation.interpret("k", [np.array([2.0**31 - 1, 1.0, -1.0])])
    np.testing.assert_array_equal(got, [2**31 - 1, -(2**31), 2**31 - 1])
