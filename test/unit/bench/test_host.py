"""Checks of the memory that device threads access on the host, and orders of threads (bench/host)."""

from __future__ import annotations

import ctypes as ct
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.host import compiled
from bench.host.contractions import NotOnHost
from bench.host.program import CHECKED, HostError, library, text_of
from mucc.compiler.driver import compile_text
from mucc.diagnostics.core import Source

KERNELS = """
#include "prelude.h"

static int chosen;
static float* memory;

static void kernel(void**) {
  __shared__ float shared[64];
  float* const wide = reinterpret_cast<float*>(on_host::dynamic[on_host::block]);
  int const t = int(threadIdx.x), other = (t + 32) % 64;
  auto at = [](void const* p) { return uint32_t(static_cast<char const*>(p) - on_host::dynamic[0]); };
  switch (chosen) {
    case 0: shared[t] = t; __syncthreads(); memory[t] = shared[other]; break;
    case 1: shared[t] = t; memory[t] = shared[other]; break;
    case 2: shared[t] = t; __syncthreads(); memory[t] = shared[other]; shared[t] = 0; break;
    case 3: memory[t + 1] = 1; break;
    case 4: memory[t] = memory[t - 1]; break;
    case 5: wide[t + 1] = 1; break;
    case 6: memory[t] = *reinterpret_cast<float*>(reinterpret_cast<char*>(memory) + 4 * (t / 2) + 2); break;
    case 7: shared[t] = t; __syncwarp(); memory[t] = shared[t ^ 1]; break;
    case 8: shared[t] = t; memory[t] = __shfl_xor_sync(~0u, shared[t ^ 1], 1); break;
    case 9:  // a copy that is read before it is waited for
      memory[t] = t;
      if (t % 4 == 0) on_host::copy_piece(wide + t, memory + t, true);
      on_host::commit_copies();
      memory[t] = wide[t];
      break;
    case 10:  // one that others read without a barrier
      memory[t] = t;
      __syncthreads();
      if (t % 4 == 0) on_host::copy_piece(wide + t, memory + t, true);
      on_host::commit_copies();
      on_host::wait_copies(0);
      memory[t] = wide[t];
      break;
    case 11:
      memory[t] = t;
      __syncthreads();
      if (t % 4 == 0) on_host::copy_piece(wide + t, memory + t, true);
      on_host::commit_copies();
      on_host::wait_copies(0);
      __syncthreads();
      memory[t] = wide[t];
      break;
    case 12:  // warps that meet at a barrier in memory
    case 13:  // and one that does not wait
      if (t == 0) on_host::start_barrier(at(wide), 32);
      __syncthreads();
      if (t < 32) shared[t] = t, on_host::expect(at(wide), 0);
      if (t >= 32 && chosen == 12) on_host::await(at(wide), 0);
      if (t >= 32) memory[t] = shared[t - 32];
      if (t < 32) memory[t] = t;
      break;
    case 14: case 15: {  // a tile is overwritten before, and after, products have read it
      for (int i = t; i < 2048; i += 128) wide[i] = 0;
      __syncthreads();
      float sum[4];
      on_host::wgmma(on_host::from_f16, sum, mucc::described(0, 0), mucc::described(0, 0), 0, false, false);
      on_host::commit_products();
      if (chosen == 15) on_host::await_products(0);
      __syncthreads();
      if (t == 0) wide[0] = 1;
      if (chosen == 14) on_host::await_products(0);
      break;
    }
  }
}

extern "C" __attribute__((visibility("default"))) int go(float* to, int bytes, int what, int threads) {
  chosen = what, memory = to;
  blockIdx = {0, 0, 0};
  on_host::body = kernel;
  on_host::name_launch("kernel", __builtin_frame_address(0));
  on_host::add_region(to, size_t(bytes), 0);
  bool const ended = on_host::run_blocks(threads, 1, what == 5 || what < 9 ? 256 : 8192);
  on_host::drop_regions();
  return ended;
}
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    path = tmp_path_factory.mktemp("host") / "k.so"
    text = KERNELS.replace('#include "prelude.h"', '#include "prelude.h"\n#include <mucc/warpgroup.cuh>')
    library(gxx, text, path, "-O1", *CHECKED)
    loaded = ct.CDLL(str(path))
    loaded.on_host_reports.restype = ct.c_char_p
    loaded.on_host_seed.argtypes = [ct.c_uint64]
    return loaded


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (0, ""),
        (1, "races"),
        (2, "races"),
        (3, "writes 4 bytes at 256 of the 256 of argument 0"),
        (4, "reads 4 bytes at -4 of the 256 of argument 0"),
        (5, "writes byte 256 of the 256 of shared memory"),
        (6, "misaligned"),
        (7, ""),
        (8, "races"),
        (9, "races"),
        (10, "races"),
        (11, ""),
        (12, ""),
        (13, "races"),
        (14, "races"),
        (15, ""),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_accesses_are_checked(checked: Any, chosen: int, found: str, seed: int) -> None:
    memory = (ct.c_float * 128)()
    checked.on_host_seed(seed)
    assert checked.go(ct.byref(memory, 128), 256, chosen, 128 if chosen >= 14 else 64)
    reports = checked.on_host_reports().decode()
    assert found in reports if found else not reports, reports


def test_orders_of_threads_differ_and_leave_the_same(checked: Any) -> None:
    memory = (ct.c_float * 64)()
    for seed in range(5):
        checked.on_host_seed(seed)
        assert checked.go(memory, 256, 0, 64)
        assert list(memory) == [(t + 32) % 64 for t in range(64)]
    assert not checked.on_host_reports()


def test_headers_that_g_plus_plus_refuses_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    monkeypatch.setattr(compiled, "KEPT", tmp_path / "kept")
    with pytest.raises(HostError, match="refused"):
        library(gxx, "", tmp_path / "k.so", "-include", "refused.h")
    assert not list((tmp_path / "kept" / "headers").iterdir())


CAUSAL = """
kernel f(q: bf16[1, 150, 64], k: bf16[1, 40, 64], v: bf16[1, 40, 64]) -> bf16[1, 150, 64] {
    return attention(q, k, v, causal=on)
}
"""


def test_a_warp_reads_the_description_of_a_tile_before_its_place_is_free(tmp_path: Path) -> None:
    """Tiles have one step of keys: nothing but `__syncwarp` orders the lanes (attention_wgmma.cuh)."""
    torch: Any = pytest.importorskip("torch")
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    from bench.host.calls import HostKernel

    kernel = HostKernel(compile_text(Source("k.mcu", CAUSAL)), tmp_path, processors=1)
    q, k, v = (torch.ones(1, n, 64, dtype=torch.bfloat16) for n in (150, 40, 40))
    y = torch.empty_like(q)
    kernel.launch(q, k, v, y)  # raises what checks find
    assert (y == 1).all()


FEW_ROWS = """
kernel f(x: bf16[3, 1024], w: bf16[1024, 1024]) -> bf16[3, 1024] {
    return x @ w.T
}
schedule f for sm_90a {
    mainloop = skinny
}
"""
TWO_BODIES = """
kernel f[M, N, K=15](
    x: f16[M, K] strides(1, _), w: f16[K, N] col_major, n: f32, k: f32[N, M] strides(1, _)
) -> (y: f16[N, M], z: f16[N, M]) {
    v = max((x @ w).T, n)
    return v, where(k > 0, v, 0.0)
}
"""
TWO_STORES = """
kernel f[M, N, K](x: f16[M, K], w: f16[N, K]) -> (y: f16[M, N], z: f16[M, N]) where K % 8 == 0, N % 8 == 0 {
    y = x @ w.T
    return y, y
}
"""
GROUPS = """
kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], ends: s32[E], b: bf16[E, N]) -> bf16[T, N]
    where K % 8 == 0, N % 8 == 0
{
    return grouped_matmul(x, w.T, ends, bias=b)
}
"""
NARROW = """
kernel f[M](x: bf16[M, 256], w: s4[64, 256], s: bf16[64, 2]) -> bf16[M, 64] {
    return x @ dequantize(w, s).T
}
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (FEW_ROWS, "few rows"),
        (TWO_BODIES, "several bodies"),
        (TWO_STORES, "results"),
        (GROUPS, "groups of rows"),
        (NARROW, "narrow weights"),
    ],
)
def test_what_has_no_stand_in_is_said(text: str, why: str) -> None:
    with pytest.raises(NotOnHost, match=why):
        text_of(compile_text(Source("k.mcu", text)))
