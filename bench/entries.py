"""One library over a range of sizes against a library for single ones, and against cuBLAS, all in one run.

    python -m bench.entries [--build-only] [--rounds N]

The kernel is `gelu(x @ w.T + b)` in bf16 with N = K = 4096. For each M, also between the sizes by which
entries were chosen: the time of the entry that takes it, and that of each library with one schedule. `loss`
is that of the entry against the best of them. Times are medians of CUDA graphs with a cold L2, in turns.
"""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.common import at_least_one, run_main, versions, write_result
from bench.gemm.measure import times
from bench.timing import card, gpu_versions
from mucc.agent.report.figures import geomean

TEXT = """
kernel linear[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {
    return gelu(x @ w.T + b)
}
"""
SIDE = 4096
"""Columns N of the result and length K of the sums."""

RANGE = "1..16384"
SINGLE = (8, 32, 64, 128, 256, 512, 4096)
"""Sizes with a library of their own."""

SIZES = (1, 8, 16, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1536, 2048, 4096, 16384)
"""Sizes that are timed."""

DISTANCE = 2e-2
"""The largest difference from PyTorch, of values of about 1."""


def libraries(jobs: int) -> dict[str, Any]:
    """Build the library of the range, and one for each single size, by several compilers at once."""
    mucc: Any = importlib.import_module("mucc")

    def built(rows: int | str) -> Any:
        return mucc.compile(TEXT, dims={"M": rows, "N": SIDE, "K": SIDE}).linear

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(("entries", *map(str, SINGLE)), pool.map(built, (RANGE, *SINGLE)), strict=True))


def row_of(torch: Any, kernels: dict[str, Any], rows: int, rounds: int) -> dict[str, Any]:
    """Time all libraries at one size. Raises ValueError for a wrong result."""
    functional = torch.nn.functional
    options = {"device": "cuda", "dtype": torch.bfloat16}
    x, w, b = (torch.randn(*s, **options) / s[-1] ** 0.5 for s in ((rows, SIDE), (SIDE, SIDE), (SIDE,)))

    def eager() -> Any:
        return functional.gelu(functional.linear(x, w, b))

    def call(kernel: Any) -> Callable[[], Any]:
        return lambda: kernel(x, w, b)

    want, calls = eager(), {name: call(kernel) for name, kernel in kernels.items()}
    for name, run in calls.items():
        if float((run() - want).abs().max()) > DISTANCE:
            raise ValueError(f"{name} is wrong at M = {rows}")
    found = {n: ms * 1e3 for n, ms in times(torch, {**calls, "eager": eager}, rounds).items()}
    best = min(t for name, t in found.items() if name not in ("entries", "eager"))
    entry = kernels["entries"].entry(x, w, b, torch.empty_like(want))
    return {"M": rows, "entry": entry, "us": found, "loss": found["entries"] / best - 1}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.entries",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--build-only", action="store_true", help="measure nothing; needs no GPU")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=4, help="libraries built at once (4)")
    parser.add_argument("--rounds", type=at_least_one, default=12, help="turns of each library (12)")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append each row to a file, as JSON")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record rows of --rows, measure nothing")
    parser.add_argument("--no-record", action="store_true", help="write no result file")
    args = parser.parse_args()
    if args.record:
        rows = [json.loads(line) for line in args.record.read_text().splitlines()]
        name, found_with, _ = rows[-1]
        print(
            write_result(
                name,
                "entries",
                [r for *_, r in rows],
                figures([r for *_, r in rows]),
                extra_versions=found_with,
            )
        )
        return 0
    kernels = libraries(args.jobs)
    if args.build_only:
        return 0
    torch: Any = importlib.import_module("torch")
    print(f"{'M':>6} {'entry':>5}  " + "".join(f"{n:>9}" for n in (*kernels, "eager")) + "     loss")
    found: list[dict[str, Any]] = []
    for size in SIZES:
        row = row_of(torch, kernels, size, args.rounds)
        found.append(row)
        line = "".join(f"{t:9.2f}" for t in row["us"].values())
        print(f"{size:6} {row['entry']!s:>5}  {line} {row['loss']:8.1%}", flush=True)
        if args.rows:
            with args.rows.open("a") as file:
                file.write(json.dumps([card(torch), {**versions(), **gpu_versions(torch)}, row]) + "\n")
    summary = figures(found)
    print("".join(f"{name:40} {value:g}\n" for name, value in summary.items()), end="")
    if not args.no_record:
        print(write_result(card(torch), "entries", found, summary, extra_versions=gpu_versions(torch)))
    return 0


def figures(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Summarise how entries compare with the best library at each size, and with cuBLAS and then GELU."""
    return {
        "entries.count": len({r["entry"] for r in rows}),
        "entries.loss_max": round(max(r["loss"] for r in rows), 4),
        "entries.over_best_geomean": round(geomean([1 / (1 + r["loss"]) for r in rows]), 4),
        "entries.over_eager_geomean": round(
            geomean([r["us"]["eager"] / r["us"]["entries"] for r in rows]), 4
        ),
    }


if __name__ == "__main__":
    run_main(main)
