"""Measure the rates of this machine's GPU: copy, products in every format, launch. Imports torch."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable
from typing import Any

from mucc.measure.timing import interleaved_us

torch: Any = importlib.import_module("torch")

SIZES = (4096, 8192)
"""Extents of the square products: the faster one counts."""

RUNS = 15
"""Timed launches of each; the median counts."""


def measure(say: Callable[[str], None] = lambda text: None) -> dict[str, float]:
    """Rates of the current device: `dram_bandwidth` in bytes per second, operations per second by format, and
    `launch`, the seconds from the start of one empty kernel to that of the next.

    Products are PyTorch's own, on random numbers; a format that PyTorch does not multiply in here is left
    out. `say` is called with a line for each result.
    """
    rates: dict[str, float] = {}
    for name, find in {"dram_bandwidth": _copy, **_PRODUCTS, "launch": _launch}.items():
        try:
            rates[name] = find()
        except (RuntimeError, TypeError, AttributeError) as problem:
            say(f"{name}: not measured ({str(problem).splitlines()[0]})")
        else:
            say(f"{name}: {rates[name]:.4g}")
    return rates


def _median(call: Callable[[], Any]) -> float:
    """Median seconds of one call from a cold L2."""
    (times,) = interleaved_us([call], RUNS, torch.cuda.current_device())
    return statistics.median(times) / 1e6


def _copy() -> float:
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * source.numel() / _median(lambda: target.copy_(source))


def _product(make: Callable[[int], Callable[[], Any]]) -> float:
    return max(2 * size**3 / _median(make(size)) for size in SIZES)


def _floats(dtype: str, tf32: bool = False) -> float:
    def make(size: int) -> Callable[[], Any]:
        a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
        return lambda: torch.matmul(a, b.T)

    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = tf32
    try:
        return _product(make)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _eight_bits(dtype: str) -> float:
    def make(size: int) -> Callable[[], Any]:
        a, b = (torch.randn(size, size, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
        one = torch.ones((), device="cuda")
        options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16, "use_fast_accum": True}
        return lambda: torch._scaled_mm(a, b.T, **options)

    return _product(make)


def _integers() -> float:
    def make(size: int) -> Callable[[], Any]:
        a, b = (torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(a, b.T)

    return _product(make)


def _launch() -> float:
    """One of many tiny kernels in a CUDA graph."""
    count = 200
    tiny = torch.zeros(32, device="cuda")
    tiny.add_(1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            tiny.add_(1.0)
    return _median(graph.replay) / count


_PRODUCTS: dict[str, Callable[[], float]] = {
    "bf16": lambda: _floats("bfloat16"),
    "f16": lambda: _floats("float16"),
    "tf32": lambda: _floats("float32", tf32=True),
    "f32": lambda: _floats("float32"),
    "e4m3": lambda: _eight_bits("float8_e4m3fn"),
    "s8": _integers,
}
