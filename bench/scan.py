"""Scans against a copy and against torch.cumsum, all on the same tensors in one run.

    python -m bench.scan [--shapes 32768x32768@1:f32,...] [--iters N]

A shape is its extents, the axis after `@`, and the dtype. `copy` is `out.copy_(x)`, which moves the same
bytes. Inputs are random; the L2 cache is flushed before each timed call; contenders take turns; figures are
medians of device events. The error is the largest distance from a float64 scan, over the float64 scan of
absolute values.
"""

from __future__ import annotations

import argparse
import importlib
import re
from typing import Any, NamedTuple

from bench.common import run_main, write_result
from bench.timing import card, gpu_versions, time_all

SHAPES = (
    "32768x32768@1:f32",
    "32768x32768@0:f32",
    "268435456@0:f32",
    "4x16777216@1:f32",
    "1048576x32@1:f32",
    "65536x1000@1:f32",
    "4096x4096@1:f32",
    "4096x4096@0:f32",
    "128x65537@1:f32",
    "16x4096x1024@1:bf16",
    "8192x32768@1:bf16",
    "4194304x4@0:f32",
)


class Shape(NamedTuple):
    """Extents, the axis that is scanned, and the dtype."""

    extents: tuple[int, ...]
    axis: int
    dtype: str

    @staticmethod
    def of(text: str) -> Shape:
        """Parse `32768x32768@1:f32`. Exits with a message for any other text."""
        if not (found := re.fullmatch(r"(\d+(?:x\d+)*)@(\d+):(f32|bf16|f16)", text)):
            raise SystemExit(f"'{text}' is no shape such as {SHAPES[0]}")
        extents = tuple(int(n) for n in found[1].split("x"))
        if int(found[2]) >= len(extents):
            raise SystemExit(f"'{text}': there is no axis {found[2]}")
        return Shape(extents, int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.extents))}@{self.axis}:{self.dtype}"

    @property
    def form(self) -> tuple[int, int, str]:
        """What a kernel is compiled for."""
        return len(self.extents), self.axis, self.dtype

    @property
    def kernel(self) -> str:
        return f"scan_{len(self.extents)}_{self.axis}_{self.dtype}"


def program(shapes: list[Shape]) -> str:
    """A kernel for each form of the shapes."""
    texts: dict[str, str] = {}
    for shape in shapes:
        dims = ", ".join("ABCDEFGH"[: len(shape.extents)])
        type = f"{shape.dtype}[{dims}]"
        texts[shape.kernel] = (
            f"kernel {shape.kernel}[{dims}](x: {type}) -> {type} {{ return cumsum(x, axis={shape.axis}) }}"
        )
    return "\n".join(texts.values())


def error_of(torch: Any, x: Any, y: Any, axis: int) -> float:
    """The largest distance from the float64 scan, over that of absolute values."""
    exact = torch.cumsum(x.double(), axis)
    distance = (y.double() - exact).abs_()
    del exact
    return float((distance / torch.cumsum(x.double().abs_(), axis)).nan_to_num_().max())


def measure(torch: Any, kernel: Any, shape: Shape, iters: int) -> dict[str, object]:
    """One row: times, rates and errors of one shape."""
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[shape.dtype]
    x = torch.randn(shape.extents, device="cuda").to(dtype)
    y, z = torch.full_like(x, float("nan")), torch.empty_like(x)
    kernel(x, out=y)
    again = torch.full_like(x, float("nan"))
    kernel(x, out=again)
    same = bool(torch.equal(y, again))
    del again
    error, theirs = (
        error_of(torch, x, y, shape.axis),
        error_of(torch, x, torch.cumsum(x, shape.axis), shape.axis),
    )
    times = time_all(
        torch,
        {
            "mucc": lambda: kernel(x, out=y),
            "torch": lambda: torch.cumsum(x, shape.axis, out=z),
            "copy": lambda: z.copy_(x),
        },
        iters,
    )
    moved = 2 * x.numel() * x.element_size()
    return {
        "shape": str(shape),
        "error": error,
        "torch_error": theirs,
        "repeats": same,
        **{f"{name}_ms": ms for name, ms in times.items()},
        "mucc_gb_s": moved / times["mucc"] * 1e-6,
        "of_copy": times["copy"] / times["mucc"],
        "torch_over_mucc": times["torch"] / times["mucc"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", default=",".join(SHAPES), help="comma-separated, as 4096x1000@1:f32")
    parser.add_argument("--iters", type=int, default=30)
    args = parser.parse_args()
    shapes = [Shape.of(text) for text in args.shapes.split(",")]
    torch = importlib.import_module("torch")
    import mucc

    module = mucc.compile(program(shapes))
    rows: list[dict[str, object]] = []
    for shape in shapes:
        rows.append(measure(torch, getattr(module, shape.kernel), shape, args.iters))
        print(
            "  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{v}" for k, v in rows[-1].items()),
            flush=True,
        )
    summary = {
        "scan.least_over_torch": min(float(str(row["torch_over_mucc"])) for row in rows),
        **{f"scan.of_copy[{row['shape']}]": float(str(row["of_copy"])) for row in rows[:2]},
    }
    print(write_result(card(torch), "scan", rows, summary, extra_versions=gpu_versions(torch)))


if __name__ == "__main__":
    run_main(main)
