"""Emitted files through the real nvcc: what comes out loads, answers and refuses. Needs no GPU."""

from __future__ import annotations

import ctypes as ct
import re
import subprocess
from importlib import resources
from pathlib import Path

import pytest
from hostlib import tensor

from mucc.build.toolchain import discover, nvcc
from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Source

POINTWISE = """
kernel norm[B, M, N](x: bf16[B, M, N], g: f32[N], t: bf16[N, M], a: f32)
    -> (y: bf16[B, M, N], s: f32[N], z: f32[])
{
    mean = sum(x * x, axis=-1) / 128
    return mish(x) / sqrt(mean)[:, :, None] * g + a * t.T, max(x, axis=(0, 1)), amax(x)
}
"""

# All kinds of nodes that one epilogue can have, in one kernel: compiling is what costs.
EPILOGUE = """
kernel full[M, N, K](x: bf16[M, K], w: bf16[N, K], c: bf16[M, N], e: f16[M, N],
                     r: f32[N], q: bf16[M], s: f32[], a: f32)
    -> (y: bf16[M, N], z: bf16[M, N], rows: f32[N], cols: f32[M], peak: f32[])
    where K % 8 == 0, N % 8 == 0
{
    h = a * (x @ w.T) + c - e * r + q[:, None] * s
    g = silu(h)
    return g, h, sum(g, axis=0), max(g, axis=1), amax(g)
}
schedule full for sm_90a {
    tile = 128x128x64
    cluster = 2x1
    mainloop = cooperative
    scheduler = persistent(raster=along_m, swizzle=2)
}
"""

pytestmark = pytest.mark.nvcc


def built(text: str, folder: Path, target: str = "sm_90a") -> tuple[ct.CDLL, nvcc.Built]:
    if not (discover.find_nvcc() and discover.find_cutlass() and discover.find_host()):
        pytest.skip("needs nvcc, CUTLASS and g++: pip install 'mucc[nvcc]'")
    source = Source("k.mcu", text)
    text = compile_text(source, Options(target)).emit("cu")
    done = nvcc.build(text, "so", discover.find_toolchain(), target=target)
    path = folder / "k.so"
    path.write_bytes(done.data)
    library = ct.CDLL(str(path))
    library.mucc_last_error.restype = ct.c_char_p
    library.mucc_manifest.restype = ct.c_char_p
    return library, done


def refused(library: ct.CDLL, name: str, count: int) -> str:
    """What the C door says to a call whose first tensor is on the CPU."""
    first = tensor("bf16", (2, 3, 128) if name == "norm" else (16, 64), device=(1, 0))
    arguments = (type(first) * count)(*[first] * count)
    call = getattr(library, f"mucc_{name}")
    call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
    assert call(arguments, count, None, 0, None) != 0
    return library.mucc_last_error().decode()


def test_map_and_reduce_kernels(tmp_path: Path):
    library, done = built(POINTWISE, tmp_path)
    assert not done.warnings, "no spills"
    assert b'"name": "norm"' in library.mucc_manifest()
    assert "MU6005: argument 'x' of norm: expected a tensor on a CUDA device" in refused(library, "norm", 7)
    assert "MU6001" in refused(library, "norm", 1)


@pytest.mark.long
def test_an_epilogue_with_every_kind_of_node(tmp_path: Path):
    library, done = built(EPILOGUE, tmp_path)
    assert "wgmma" not in done.log, "wgmma must not be serialised"
    assert b'"name": "full"' in library.mucc_manifest()
    assert "MU6005: argument 'x' of full: expected a tensor on a CUDA device" in refused(library, "full", 13)


@pytest.mark.long
def test_a_kernel_for_blackwell(tmp_path: Path):
    library, _ = built(EPILOGUE, tmp_path, "sm_100a")
    assert b'"target": "sm_100a"' in library.mucc_manifest()
    assert "MU6005: argument 'x' of full: expected a tensor on a CUDA device" in refused(library, "full", 13)


def test_no_signed_minimum_or_maximum_of_integers_reaches_ptxas(tmp_path: Path):
    """ptxas 13.0 loses signs where it forms VIMNMX3 of three signed operands, one of them negated."""
    compiler = discover.find_nvcc()
    if not (compiler and discover.find_host()):
        pytest.skip("needs nvcc and g++: pip install 'mucc[nvcc]'")
    source = tmp_path / "extremes.cu"
    source.write_text(
        """#include <mucc/math.cuh>
extern "C" __global__ void extremes(int const* in, int* out) {
  int const a = in[0], b = in[1], c = in[2];
  out[0] = mucc::max(mucc::max(a, mucc::neg(b)), mucc::neg(c));
  out[1] = mucc::min(mucc::min(a, mucc::neg(b)), mucc::neg(c));
}
"""
    )
    include = resources.files("mucc") / "support" / "include"
    ptx = subprocess.run(
        [compiler.path, "-ptx", "-std=c++17", "-arch=sm_90a", f"-I{include}", "-o", "-", str(source)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert re.findall(r"(?:min|max)\.\w+", ptx) == ["max.u32", "max.u32", "min.u32", "min.u32"]
