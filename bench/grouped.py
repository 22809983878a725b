"""Grouped GEMMs of expert layers against PyTorch, all on the same tensors in one run.

    python -m bench.grouped [--tokens 4096,8192,...] [--iters N]

For layers of Mixtral 8x7B (8 experts, 4096 and 14336 wide), T rows in even and in skewed groups: a kernel
whose schedule the compiler chooses, torch._grouped_mm, and a loop of torch.matmul over the groups, for which
the offsets are on the host already. Inputs are random; the L2 cache is flushed before each timed call;
contenders take turns; figures are medians of device events.
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable
from typing import Any

from bench.common import run_main, write_result
from bench.timing import card, gpu_versions, time_all

PROGRAM = """\
kernel grouped[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], offsets: s32[E]) -> bf16[T, N] {
    return grouped_matmul(x, w.T, offsets)
}
"""

EXPERTS = 8
LAYERS = ((14336, 4096), (4096, 14336))
"""N and K of the projections up and down."""

SHARES = {"even": (1,) * 8, "skewed": (32, 16, 8, 4, 2, 1, 1, 0)}
"""How rows divide among experts."""


def ends_of(tokens: int, shares: tuple[int, ...]) -> list[int]:
    """The ends of groups in proportion to shares, not at multiples of a tile."""
    total, sums = sum(shares), [sum(shares[: g + 1]) for g in range(len(shares))]
    ends = [min(tokens, tokens * s // total + (3 * g) % 7) for g, s in enumerate(sums)]
    return [*sorted(ends[:-1]), tokens]


def measure(
    torch: Any, kernel: Any, tokens: int, layer: tuple[int, int], shares: str, iters: int
) -> dict[str, object]:
    """One row: times, rates and the error of one shape."""
    n, k = layer
    x = torch.randn(tokens, k, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(EXPERTS, n, k, device="cuda", dtype=torch.bfloat16) * k**-0.5
    y = torch.full((tokens, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    ends = ends_of(tokens, SHARES[shares])
    offsets = torch.tensor(ends, device="cuda", dtype=torch.int32)
    begins = [0, *ends[:-1]]

    def loop() -> None:
        for g, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            torch.matmul(x[begin:end], w[g].T, out=z[begin:end])

    z = torch.empty_like(y)
    kernel(x, w, offsets, out=y)
    loop()
    error = float((y.double() - z.double()).norm() / z.double().norm())
    contenders: dict[str, Callable[[], Any]] = {"mucc": lambda: kernel(x, w, offsets, out=y), "loop": loop}
    if hasattr(torch, "_grouped_mm"):
        contenders["grouped_mm"] = lambda: torch._grouped_mm(x, w.transpose(-1, -2), offs=offsets)
    times = time_all(torch, contenders, iters)
    flop = 2 * tokens * n * k
    return {
        "shape": f"{tokens}x{n}x{k}",
        "groups": shares,
        "error": error,
        **{f"{name}_ms": ms for name, ms in times.items()},
        **{f"{name}_tflops": flop / ms * 1e-9 for name, ms in times.items()},
        **{f"{name}_over_mucc": ms / times["mucc"] for name, ms in times.items() if name != "mucc"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", default="512,4096,8192,16384", help="comma-separated numbers of rows")
    parser.add_argument("--iters", type=int, default=20)
    args = parser.parse_args()
    torch = importlib.import_module("torch")
    import mucc

    kernel = mucc.compile(PROGRAM).grouped
    rows: list[dict[str, object]] = []
    for tokens in map(int, str(args.tokens).split(",")):
        for layer in LAYERS:
            for shares in SHARES:
                row = measure(torch, kernel, tokens, layer, shares, args.iters)
                print("  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{v}" for k, v in row.items()))
                rows.append(row)
    summary: dict[str, float] = {}
    for name in ("loop", "grouped_mm"):
        ratios = [float(str(row[f"{name}_over_mucc"])) for row in rows if f"{name}_over_mucc" in row]
        if ratios:
            summary[f"grouped.{name}_over_mucc_geomean"] = math.exp(sum(map(math.log, ratios)) / len(ratios))
            summary[f"grouped.{name}_over_mucc_min"] = min(ratios)
    print(write_result(card(torch), "grouped", rows, summary, extra_versions=gpu_versions(torch)))


if __name__ == "__main__":
    run_main(main)
