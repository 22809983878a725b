"""Operands of attention that are parts of tensors: kernels read them where they lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.core import Source

SHARED = """
kernel f[B, H, T](q: bf16[B, H, 1, 192], c: bf16[B, 1, T, 192]) -> bf16[B, H, 1, 128] {
    return attention(q, c, c[..., :128], scale=0.1)
}
"""
PACKED = """
kernel f[B, S, H=4](x: bf16[B, S, 3*H*64]) -> bf16[B, H, S, 64] {
    y = reshape(x, (B, S, 3, H, 64))
    q = permute(y[:, :, 0], (0, 2, 1, 3))
    k = permute(y[:, :, 1], (0, 2, 1, 3))
    return attention(q, k, permute(y[:, :, 2], (0, 2, 1, 3)), causal=on)
}
"""
HALVES = """
kernel f[S, T](q: bf16[S, 128], k: bf16[T, 64], v: bf16[T, 64]) -> bf16[S, 64] {
    return attention(q[:, 64:], k[3:], v[3:])
}
"""
UNALIGNED = HALVES.replace("128", "70").replace("64:]", "3:67]")
FLIPPED = HALVES.replace("128", "64").replace("q[:, 64:], k[3:]", "q, flip(k[3:], 0)")


def _shapes(text: str) -> list[tuple[int, ...]]:
    if text is SHARED:
        return [(2, 4, 1, 192), (2, 1, 90, 192)]
    if text is PACKED:
        return [(2, 20, 768)]
    return [(20, 70 if text is UNALIGNED else 64 if text is FLIPPED else 128), (40, 64), (40, 64)]


@pytest.mark.parametrize(
    ("text", "copies"), [(SHARED, 0), (PACKED, 0), (HALVES, 0), (UNALIGNED, 1), (FLIPPED, 1)]
)
def test_parts_are_read_where_they_lie(text: str, copies: int) -> None:
    compilation = compile_text(Source("k.mcu", text))
    lowered = str(compilation.cutlass)
    assert lowered.count("cutlass.attention ") == 1
    assert lowered.count("cutlass.map ") == copies
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in _shapes(text)]
    (got,) = compilation.interpret_lowered("f", inputs)
    (want,) = compilation.interpret("f", inputs)
    np.testing.assert_allclose(got, want, atol=0.02)


PROJECTED = """
kernel f[B, S](x: bf16[B, S, 768]) -> bf16[B, S, 256] {
    q = permute(reshape(x[:, :, :256], (B, S, 4, 64)), (0, 2, 1, 3))
    k = permute(reshape(x[:, :, 256:512], (B, S, 4, 64)), (0, 2, 1, 3))
    v = permute(reshape(x[:, :, 512:], (B, S, 4, 64)), (0, 2, 1, 3))
    return reshape(permute(attention(q, k, v, causal=on), (0, 2, 1, 3)), (B, S, 256))
}
"""
GROUPED = """
kernel f[B, S](x: bf16[B, S, 512+2*128]) -> bf16[B, S, 512] {
    q = permute(reshape(x[..., :512], (B, S, 8, 64)), (0, 2, 1, 3))
    k = permute(reshape(x[..., 512:640], (B, S, 2, 64)), (0, 2, 1, 3))
    v = permute(reshape(x[..., 640:], (B, S, 2, 64)), (0, 2, 1, 3))
    y = attention(reshape(q, (B, 2, 4, S, 64)), k[:, :, None], v[:, :, None], causal=on)
    return reshape(permute(reshape(y, (B, 8, S, 64)), (0, 2, 1, 3)), (B, S, 512))
}
"""
FUSED_HEADS = """
kernel f[B, S](x: bf16[B, S, 6, 64]) -> bf16[B, 4, S, 64] {
    q = reshape(permute(x[:, :, 0:4], (0, 2, 1, 3)), (B, 1, 4, S, 64))
    k = permute(x[:, :, 4:5], (0, 2, 1, 3))[:, :, None]
    v = permute(x[:, :, 5:6], (0, 2, 1, 3))[:, :, None]
    return reshape(attention(q, k, v), (B, 4, S, 64))
}
"""
BY_AXIS = """
kernel f[B, S](x: bf16[B, S, 3*4*32]) -> bf16[B, S, 128] {
    y = permute(reshape(x, (B, S, 3, 4, 32)), (2, 0, 3, 1, 4))
    return reshape(permute(attention(y[0], y[1], y[2]), (0, 2, 1, 3)), (B, S, 128))
}
"""
PER_HEAD = """
kernel f[B, S](x: bf16[B, S, 4*3*64]) -> bf16[B, S, 4, 64] {
    y = reshape(x, (B, S, 4, 3, 64))
    q = permute(y[:, :, :, 0], (0, 2, 1, 3))
    k = permute(y[:, :, :, 1], (0, 2, 1, 3))
    return permute(attention(q, k, permute(y[:, :, :, 2], (0, 2, 1, 3))), (0, 2, 1, 3))
}
"""
TURNED_ROWS = FUSED_HEADS.replace("bf16[B, 4, S, 64]", "bf16[B, 4, 64, S]").replace(
    "reshape(attention(q, k, v), (B, 4, S, 64))", "permute(attention(q, k, v)[:, 0], (0, 1, 3, 2))"
)


@pytest.mark.parametrize(
    ("text", "shape", "copies"),
    [
        (PROJECTED, (2, 20, 768), 0),
        (GROUPED, (2, 20, 768), 0),
        (FUSED_HEADS, (2, 20, 6, 64), 0),
        (BY_AXIS, (2, 20, 384), 0),
        (PER_HEAD, (2, 20, 768), 0),
        (TURNED_ROWS, (2, 20, 6, 64), 1),
    ],
)
def test_reshaped_parts_are_read_and_results_stored_in_place(
    text: str, shape: tuple[int, ...], copies: int
) -> None:
    compilation = compile_text(Source("k.mcu", text))
    lowered = str(compilation.cutlass)
    assert lowered.count("cutlass.attention ") == 1
    assert lowered.count("cutlass.map ") == copies
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    (got,) = compilation.interpret_lowered("f", [x])
    (want,) = compilation.interpret("f", [x])
    np.testing.assert_allclose(got, want, atol=0.02)


SINGLE = """
kernel queries[T](q: f16[2, 1, 32], k: f16[T, 32], v: f16[T, 48]) -> f16[1, 48] {
    return attention(q[1], k, v)
}
kernel keys(q: f16[17, 32], k: f16[2, 1, 32], v: f16[3, 1, 48]) -> f16[17, 48] {
    return attention(q, k[1], v[2], causal=on)
}
kernel pages(
    q: f16[1, 1, 4, 32], k: f16[1, 64, 1, 32], v: f16[1, 64, 1, 32], table: s32[1, 1]
) -> f16[1, 1, 4, 32] {
    keys = permute(reshape(gather(k, table), (1, 64, 1, 32)), (0, 2, 1, 3))
    return attention(q, keys, permute(reshape(gather(v, table), (1, 64, 1, 32)), (0, 2, 1, 3)))
}
"""


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_single_rows_that_are_parts_agree_with_the_interpreter(target: str, tmp_path: Path) -> None:
    program = Program.of(compile_text(Source("k.mcu", SINGLE), Options(target=target)), tmp_path)
    program.library.on_host_sm_count(2)
    for info in program.kernels:
        run(program, info, dict.fromkeys(info.dims, 40), seed=3, floats=(-1.0, 0.5, 2.0), within=2**-9)
