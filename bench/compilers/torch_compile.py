"""torch.compile: the layer as one writes it in torch. A first call compiles, and its run is counted too."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from bench.compilers.problem import activation, tensors

_compiled: dict[int, Any] = {}


def compile_once(variant: int, cache_dir: str, mode: str = "default") -> float:
    """Compile one variant in a mode of torch.compile; the seconds it took."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache_dir
    os.environ["TRITON_CACHE_DIR"] = os.path.join(cache_dir, "triton")
    torch: Any = importlib.import_module("torch")
    function, linear = activation(variant), torch.nn.functional.linear
    x, w, b = tensors()

    # Code of its own for each variant: they are no recompilations of one function.
    def layer(x: Any, w: Any, b: Any) -> Any:
        return function(linear(x, w, b))

    layer.__code__ = layer.__code__.replace(co_name=f"layer_{variant}")
    torch.cuda.synchronize()
    started = time.perf_counter()
    _compiled[variant] = torch.compile(layer, mode=mode, fullgraph=True, dynamic=False)
    _compiled[variant](x, w, b)
    torch.cuda.synchronize()
    return time.perf_counter() - started


def launch(variant: int, mode: str = "default") -> Any:
    """Run a variant that was compiled; y."""
    return _compiled[variant](*tensors())
