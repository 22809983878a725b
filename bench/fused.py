"""Fused GEMMs against PyTorch, all on the same tensors in one run.

    python -m bench.fused [--shapes 8192x8192x8192,...] [--iters N]

For every shape: a linear layer with gelu whose schedule the compiler chooses, torch.matmul alone (which
does less work), and torch's linear followed by gelu. Inputs are random; the L2 cache is flushed before
each timed call; contenders take turns; figures are medians of device events. The error is the
relative Frobenius distance to a float64 product of the same inputs.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from bench.common import run_main, write_result
from bench.timing import card, gpu_versions, time_all

PROGRAM = """\
kernel linear_gelu[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {
    return gelu(x @ w.T + b)
}
"""

SHAPES = ("8192x8192x8192", "4096x4096x4096", "2048x8192x4096", "1000x4096x4096", "128x4096x4096")


def parse_shape(text: str) -> tuple[int, int, int]:
    """`MxNxK` as numbers."""
    m, n, k = (int(part) for part in text.split("x"))
    return m, n, k


def measure(torch: Any, kernel: Any, shape: tuple[int, int, int], iters: int) -> dict[str, object]:
    """One row: times, rates and the error of one shape."""
    m, n, k = shape
    x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * k**-0.5
    b = torch.randn(n, device="cuda", dtype=torch.bfloat16)
    y = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    kernel(x, w, b, out=y)
    exact = torch.nn.functional.gelu(x.double() @ w.double().T + b.double())
    error = float((y.double() - exact).norm() / exact.norm())
    del exact
    functional = torch.nn.functional
    times = time_all(
        torch,
        {
            "mucc": lambda: kernel(x, w, b, out=y),
            "matmul": lambda: torch.matmul(x, w.T),
            "eager": lambda: functional.gelu(functional.linear(x, w, b)),
        },
        iters,
    )
    flop = 2 * m * n * k
    return {
        "shape": f"{m}x{n}x{k}",
        "error": error,
        **{f"{name}_ms": ms for name, ms in times.items()},
        **{f"{name}_tflops": flop / ms * 1e-9 for name, ms in times.items()},
        "matmul_over_mucc": times["matmul"] / times["mucc"],
        "eager_over_mucc": times["eager"] / times["mucc"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default=",".join(SHAPES), help="comma-separated MxNxK")
    parser.add_argument("--iters", type=int, default=30)
    args = parser.parse_args()
    torch = importlib.import_module("torch")
    import mucc

    module = mucc.compile(PROGRAM)
    rows = [measure(torch, module.linear_gelu, parse_shape(s), args.iters) for s in args.shapes.split(",")]
    for row in rows:
        print("  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()))
    summary = {
        "fused.linear_gelu_8192_over_matmul": float(str(rows[0]["matmul_over_mucc"])),
        "fused.linear_gelu_8192_error": float(str(rows[0]["error"])),
    }
    print(write_result(card(torch), "fused", rows, summary, extra_versions=gpu_versions(torch)))


if __name__ == "__main__":
    run_main(main)
