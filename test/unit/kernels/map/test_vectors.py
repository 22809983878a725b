"""Kernels that compute vectors load and store them by one instruction each."""

from __future__ import annotations

import re

import pytest

from bench.host.ptx.machine import ptx_of
from mucc.build.toolchain import nvrtc
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source

pytestmark = pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")

KERNELS = {
    "axes": "kernel k(x: {0}[8, 96, 32, 128]) -> {0}[8, 32, 96, 128]"
    " {{ return relu(permute(x, (0, 2, 1, 3))) }}",
    "open axes": "kernel k[A, B, C, D](x: {0}[A, B, C, D], y: {0}[A, C, B, D]) -> {0}[A, C, B, D]"
    " {{ return permute(x, (0, 2, 1, 3)) * y }}",
    "transposed": "kernel k(x: {0}[512, 640]) -> {0}[640, 512] {{ return permute(x, (1, 0)) }}",
    "beside a transposed one": "kernel k(x: {0}[512, 640], y: {0}[640, 512]) -> {0}[640, 512]"
    " {{ return permute(x, (1, 0)) + y }}",
    "rows": "kernel k(x: {0}[9, 32, 4096]) -> {0}[9, 32, 4096] {{ return softmax(x, axis=-1) }}",
    "columns": "kernel k(x: {0}[9, 512, 64]) -> {0}[9, 512, 64] {{ return softmax(x, axis=1) }}",
}
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("name", KERNELS)
def test_no_store_of_a_vector_is_divided(name: str, dtype: str) -> None:
    parts = compile_text(Source("k.mcu", KERNELS[name].format(dtype))).parts()
    found: list[tuple[str, int]] = []
    for image in parts.images:
        ptx = ptx_of(image.source, has_kernels=True)
        for kernel, body in re.findall(r"\.entry (\w+_(?:vector|pack))\((.*?)\n}\n", ptx, re.S):
            for count, bits in re.findall(r"st\.global\.(?:\w+\.)*?(?:v([24])\.)?[bfsu](8|16|32)", body):
                found.append((kernel, int(count or 1) * BYTES[bits]))
            # Ends of rows that are no whole vectors go by single elements, in kernels of copies.
            assert not re.search(r"st\.global\.\w+\s+\[(%rd\d+)\],.*\n\s*st\.global\.\w+\s+\[\1\+", body), (
                body
            )
    assert found and max(size for _, size in found) == 16
