"""Triton: a plain `tl.dot` kernel with bias and activation, eight warps, four stages."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from bench.compilers.problem import TILE_K, TILE_M, TILE_N, VARIANTS, K, M, N, tensors

GROUP = 8


def _call(variant: int, function: Any, **settings: Any) -> Any:
    """Call a kernel with all arguments of the layer; y."""
    torch: Any = importlib.import_module("torch")
    y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
    tiles = {"TILE_M": TILE_M, "TILE_N": TILE_N, "TILE_K": TILE_K, "GROUP": GROUP}
    settings |= {"num_warps": 8, "num_stages": 4}
    function(*tensors(), y, M, N, K, ACTIVATION=VARIANTS[variant], **tiles, **settings)
    return y


def compile_once(variant: int, cache_dir: str) -> float:
    """Compile one variant; the seconds it took."""
    os.environ["TRITON_CACHE_DIR"] = cache_dir
    kernel = importlib.import_module("bench.compilers.triton_kernel").linear_kernel
    started = time.perf_counter()
    _call(variant, kernel.warmup, grid=(1,))
    return time.perf_counter() - started


def launch(variant: int) -> Any:
    """Run a variant; y."""
    kernel = importlib.import_module("bench.compilers.triton_kernel").linear_kernel
    return _call(variant, kernel[(-(-M // TILE_M) * -(-N // TILE_N),)])
