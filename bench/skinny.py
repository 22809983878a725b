"""Contractions with few rows against the bandwidth of memory, and against PyTorch, all in one run.

    python -m bench.skinny [--iters N] [--sweep]

For every shape: the skinny kernel, torch.matmul, and a copy of a buffer of the weights' size (which moves
twice as many bytes). Inputs are random; before each timed call other memory is read through the L2 cache
(memory that was written there would have to be stored while the call runs); contenders take turns; figures
are medians of device events. `share` is the kernel's compulsory bytes per second over those
of the copy. With `--sweep` a table of schedules instead: what the defaults are chosen from.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from bench.common import at_least_one, run_main, write_result
from bench.timing import card, gpu_versions, time_all

DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
BYTES = {"bf16": 2, "f16": 2, "f32": 4}

SHAPES = (
    (4096, 4096),
    (6144, 4096),
    (28672, 4096),
    (4096, 14336),
    (8192, 8192),
    (28672, 8192),
    (8192, 28672),
    (16384, 16384),
)
"""N and K of layers of Llama, Qwen and Mixtral, and squares."""


@dataclass(frozen=True)
class Case:
    """A kernel: `along_k` says whether K is the contiguous axis of the weights. Settings are source text."""

    dtype: str
    along_k: bool
    few: int
    settings: tuple[str, ...] = ()
    compute: str = ""

    @property
    def name(self) -> str:
        words = (self.dtype, self.compute, "nt" if self.along_k else "nn", str(self.few), *self.settings)
        return "s_" + "_".join("".join(c for c in w if c.isalnum()) for w in words if w)

    @property
    def program(self) -> str:
        weights = "N, K" if self.along_k else "K, N"
        compute = f", compute={self.compute}" if self.compute else ""
        t = self.dtype
        lines = ["mainloop = skinny", *self.settings]
        return (
            f"kernel k[M, N, K](x: {t}[M, K], w: {t}[{weights}]) -> {t}[M, N] {{\n"
            f"    return matmul(x, {'w.T' if self.along_k else 'w'}{compute})\n}}\n\n"
            "schedule k for sm_90a {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"
        )


def build(cases: Iterable[Case], folder: Path, jobs: int) -> dict[Case, Any]:
    """The kernel of every case that is legal."""
    import mucc

    paths = {case: folder / f"{case.name}.mcu" for case in cases}
    for case, path in paths.items():
        path.write_text(case.program)
    # Several compilers at once: each has one NVRTC, and these kernels are all NVRTC's.
    every = max(jobs // 2, 1)
    running: list[subprocess.Popen[str]] = []
    for few, part in product(sorted({case.few for case in paths}), range(every)):
        some = [str(path) for case, path in paths.items() if case.few == few][part::every]
        if some:
            command = [sys.executable, "-m", "mucc", *some, "-j", "2", "--dims", f"M={few},N=8192,K=8192"]
            running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder))
    for process in running:
        said = process.communicate()[1]
        if process.returncode and (errors := [x for x in said.splitlines() if x.startswith("error")]):
            print(f"{len(errors)} programs refused, such as: {errors[0]}")
    return {
        case: mucc.load(path.with_suffix(".so")).k
        for case, path in paths.items()
        if path.with_suffix(".so").exists()
    }


class Data:
    """Random operands of a shape, each made once."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.kept: dict[tuple[str, int, int], Any] = {}

    def weights(self, dtype: str, n: int, k: int) -> Any:
        """N by K."""
        key = (dtype, n, k)
        if key not in self.kept:
            self.kept.clear()
            kind = getattr(self.torch, DTYPES[dtype])
            self.kept[key] = self.torch.randn(n, k, device="cuda", dtype=kind) * k**-0.5
        return self.kept[key]


def measure(
    torch: Any, data: Data, kernel: Any, case: Case, shape: tuple[int, int, int], iters: int
) -> dict[str, object]:
    """One row: times and shares of one shape."""
    m, n, k = shape
    kind = getattr(torch, DTYPES[case.dtype])
    w = data.weights(case.dtype, n, k)
    x = torch.randn(m, k, device="cuda", dtype=kind)
    y = torch.full((m, n), float("nan"), device="cuda", dtype=kind)
    given = w if case.along_k else w.view(k, n)
    right = w.T if case.along_k else w.view(k, n)
    to = torch.empty_like(w)
    kernel.launch(x, given, y)
    exact = x[:, :].double() @ right.double()
    error = float((y.double() - exact).norm() / exact.norm())
    del exact
    times = time_all(
        torch,
        {
            "mucc": lambda: kernel.launch(x, given, y),
            "matmul": lambda: torch.matmul(x, right, out=y),
            "copy": lambda: to.copy_(w),
        },
        iters,
    )
    size = BYTES[case.dtype]
    moved = size * (m * k + n * k + m * n)
    copied = 2 * size * n * k
    return {
        "kernel": case.name,
        "shape": f"{m}x{n}x{k}",
        "error": error,
        **{f"{name}_us": 1000 * ms for name, ms in times.items()},
        "tb_per_s": moved / times["mucc"] * 1e-9,
        "copy_tb_per_s": copied / times["copy"] * 1e-9,
        "share": (moved / times["mucc"]) / (copied / times["copy"]),
        "matmul_over_mucc": times["matmul"] / times["mucc"],
    }


def table(torch: Any, folder: Path, jobs: int, iters: int) -> list[dict[str, object]]:
    """Every shape with kernels of default schedules."""
    kinds = [
        ("bf16", True, ""),
        ("bf16", False, ""),
        ("f32", True, "f32"),
        ("f32", True, ""),
        ("f32", False, ""),
    ]
    rows = (1, 4, 8, 16)
    cases = [Case(t, along, few, (), compute) for (t, along, compute), few in product(kinds, rows)]
    kernels = build([c for c in cases if c.compute != "f32" or c.few <= 16], folder, jobs)
    data = Data(torch)
    found: list[dict[str, object]] = []
    for n, k in SHAPES:
        for case, kernel in sorted(kernels.items(), key=lambda item: item[0].dtype):
            if case.dtype == "f32" and n * k > 2**27:
                continue
            found.append(measure(torch, data, kernel, case, (case.few, n, k), iters))
            show(found[-1])
    return found


def swept() -> Iterator[Case]:
    """Schedules to compare."""
    splits = ((), ("scheduler = split_k(2)",))
    lists = (
        ("bf16", True, 8, ("16x128", "16x256", "32x64", "32x128", "64x32", "64x64")),
        ("bf16", True, 16, ("16x128", "32x64", "64x32", "64x64")),
        ("bf16", False, 8, ("64x16", "64x32", "64x64", "128x16", "128x32")),
        ("bf16", False, 16, ("64x16", "64x32", "64x64", "128x16")),
    )
    for dtype, along, few, tiles in lists:
        for tile, stages, split in product(tiles, (2, 3, 4), splits):
            yield Case(dtype, along, few, (f"tile = {few}x{tile}", f"stages = {stages}", *split))


def sweep(torch: Any, folder: Path, jobs: int, iters: int) -> list[dict[str, object]]:
    """All schedules, on a small, a middling and a large shape."""
    kernels = build(list(swept()), folder, jobs)
    data = Data(torch)
    found: list[dict[str, object]] = []
    for n, k in ((4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336)):
        rows = [
            measure(torch, data, kernel, case, (case.few, n, k), iters) for case, kernel in kernels.items()
        ]
        for kind in sorted({"_".join(str(r["kernel"]).split("_")[:4]) for r in rows}):
            mine = [r for r in rows if str(r["kernel"]).startswith(kind)]
            mine.sort(key=lambda r: float(str(r["mucc_us"])))
            for row in [*mine[:6], mine[-1]]:
                show(row)
        found += rows
    for kind in sorted({"_".join(str(r["kernel"]).split("_")[:4]) for r in found}):
        shares: dict[str, list[float]] = {}
        for row in found:
            if str(row["kernel"]).startswith(kind):
                shares.setdefault(str(row["kernel"]), []).append(float(str(row["share"])))
        means = sorted(((geometric_mean(v), name) for name, v in shares.items()), reverse=True)
        print("  ".join(f"{name}={mean:.3f}" for mean, name in means[:8]))
    return found


def show(row: dict[str, object]) -> None:
    print("  ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)


def summary(rows: Sequence[dict[str, object]]) -> dict[str, float]:
    """The figures by dtype, over cases of up to 16 rows."""
    found: dict[str, float] = {}
    for dtype in ("bf16", "f32"):
        mine = [
            r
            for r in rows
            if str(r["kernel"]).startswith(f"s_{dtype}") and int(str(r["shape"]).split("x")[0]) <= 16
        ]
        if mine:
            shares = [float(str(r["share"])) for r in mine]
            found[f"skinny.{dtype}.copy_share_geomean"] = geometric_mean(shares)
            found[f"skinny.{dtype}.copy_share_min"] = min(shares)
            faster = [float(str(r["matmul_over_mucc"])) for r in mine]
            found[f"skinny.{dtype}.over_cublas_geomean"] = geometric_mean(faster)
            found[f"skinny.{dtype}.over_cublas_min"] = min(faster)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--jobs", type=at_least_one, default=16)
    parser.add_argument("--sweep", action="store_true", help="compare schedules instead")
    args = parser.parse_args()
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = True
    with tempfile.TemporaryDirectory() as name:
        if args.sweep:
            sweep(torch, Path(name), args.jobs, args.iters)
            return
        rows = table(torch, Path(name), args.jobs, args.iters)
    figures = summary(rows)
    print(figures)
    print(write_result(card(torch), "skinny", rows, figures, extra_versions=gpu_versions(torch)))


if __name__ == "__main__":
    run_main(main)
