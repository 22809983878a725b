"""CuTe DSL: the warp-specialised TMA and wgmma kernel of `cute_dsl_kernel`."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from bench.compilers.problem import VARIANTS, K, M, N, tensors

_compiled: dict[int, Any] = {}


def _find_package() -> None:
    """Make `import cutlass` find the DSL where it was installed into a plain folder, whose .pth file Python
    does not read. Raises ModuleNotFoundError where it is not installed."""
    if importlib.util.find_spec("cutlass") is not None:
        return
    if (found := importlib.util.find_spec("nvidia_cutlass_dsl")) is None:
        raise ModuleNotFoundError("No module named 'nvidia_cutlass_dsl'", name="nvidia_cutlass_dsl")
    for folder in found.submodule_search_locations or ():
        sys.path.append(str(Path(folder) / "python_packages"))
    importlib.invalidate_caches()


@cache
def _arguments() -> tuple[Any, ...]:
    """x, w, b, y, the stream as the DSL takes them, with extents and strides of run time; y of torch."""
    torch: Any = importlib.import_module("torch")
    driver: Any = importlib.import_module("cuda.bindings.driver")
    from_dlpack: Any = importlib.import_module("cutlass.cute.runtime").from_dlpack
    assert K % 8 == 0 and N % 8 == 0, "TMA takes rows of whole 16 bytes"
    y = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
    views = [
        from_dlpack(t, assumed_align=16).mark_layout_dynamic(leading_dim=t.ndim - 1) for t in (*tensors(), y)
    ]
    return (*views, driver.CUstream(torch.cuda.current_stream().cuda_stream), y)


def compile_once(variant: int, cache_dir: str) -> float:
    """Compile one variant; the seconds it took."""
    os.environ["CUTE_DSL_CACHE_DIR"] = cache_dir
    _find_package()
    cute: Any = importlib.import_module("cutlass.cute")
    kernel: Any = importlib.import_module("bench.compilers.cute_dsl_kernel")
    *arguments, _ = _arguments()
    started = time.perf_counter()
    _compiled[variant] = cute.compile(kernel.linear, *arguments, kernel.ACTIVATIONS[VARIANTS[variant]])
    return time.perf_counter() - started


def launch(variant: int) -> Any:
    """Run a variant that was compiled; y."""
    *arguments, y = _arguments()
    y.fill_(float("nan"))
    _compiled[variant](*arguments)
    return y.clone()
