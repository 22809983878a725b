"""How exactly each number format multiplies, against float64.

    python -m bench.accuracy [--sizes 512,4096,16384]
    python -m bench.accuracy --docs bench/results/nvidia-h200/accuracy.json

A product [1024, K] x [K, 1024] of standard normal numbers, for every dtype and arithmetic, stored as f32 (of
integers s32). `arithmetic` is the relative Frobenius distance to the float64 product of the numbers that the
kernel was given; `total` is that to the product of the numbers before they were rounded to the dtype.
`--docs` writes the table of docs/accuracy.md from recorded results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import run_main, write_result

ROWS = 1024
DOCS = Path(__file__).resolve().parents[1] / "docs" / "accuracy.md"
BEGIN, END = "<!-- begin -->\n", "<!-- end -->\n"


class Case(NamedTuple):
    """Dtypes of the operands, and how they multiply. `scale` is what numbers are multiplied with first."""

    a: str
    b: str
    options: str = ""
    scale: float = 1.0

    @property
    def out(self) -> str:
        return "s32" if {self.a, self.b} <= {"s8", "u8"} else "f32"

    @property
    def program(self) -> str:
        product = f"matmul(x, w.T, {self.options})" if self.options else "x @ w.T"
        types = f"x: {self.a}[M, K], w: {self.b}[N, K]"
        return f"kernel product[M, N, K]({types}) -> {self.out}[M, N] {{ return {product} }}"


CASES = {
    "f32": Case("f32", "f32", "compute=f32"),
    "tf32x3": Case("f32", "f32", "compute=tf32x3"),
    "tf32": Case("f32", "f32"),
    "f16": Case("f16", "f16"),
    "bf16": Case("bf16", "bf16"),
    "e4m3": Case("e4m3", "e4m3"),
    "e4m3, acc=fast": Case("e4m3", "e4m3", "acc=fast"),
    "e5m2 with e4m3": Case("e5m2", "e4m3"),
    "e5m2 with e4m3, acc=fast": Case("e5m2", "e4m3", "acc=fast"),
    "s8": Case("s8", "s8", scale=32.0),
    "bf16 with s8": Case("bf16", "s8", scale=32.0),
}


def build(folder: Path) -> dict[str, Any]:
    """The kernels of all cases that compile, built side by side; says which do not."""
    import mucc

    files = {name: folder / f"case{i}.mcu" for i, name in enumerate(CASES)}
    for name, file in files.items():
        file.write_text(CASES[name].program, encoding="utf-8")
    command = [sys.executable, "-m", "mucc", *(f.name for f in files.values()), "-j", str(os.cpu_count())]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    built = {name: file.with_suffix(".so") for name, file in files.items()}
    if missing := [name for name, library in built.items() if not library.exists()]:
        print(f"left out, since they do not compile: {', '.join(missing)}\n{done.stderr[-2000:]}")
    return {name: mucc.load(library).product for name, library in built.items() if library.exists()}


def measure(torch: Any, name: str, kernel: Any, k: int) -> dict[str, object]:
    """The errors of one case at one K."""
    from mucc.dialects.mu.arrays import TorchArrays
    from mucc.runtime.torch_glue import DTYPES

    case = CASES[name]
    arrays = TorchArrays(torch.device("cuda"))
    generator = torch.Generator("cuda").manual_seed(k)

    def draw(dtype: str) -> tuple[Any, Any]:
        exact = torch.randn(ROWS, k, generator=generator, device="cuda", dtype=torch.float64)
        exact *= case.scale if dtype in ("s8", "u8") else 1.0
        return exact, arrays.round_to(exact, dtype)

    (x, x_given), (w, w_given) = draw(case.a), draw(case.b)
    got = kernel(x_given.to(DTYPES[case.a]), w_given.to(DTYPES[case.b])).double()

    def distance(a: Any, b: Any) -> float:
        want = a @ b.T
        return float((got - want).norm() / want.norm())

    return {"format": name, "k": k, "arithmetic": distance(x_given, w_given), "total": distance(x, w)}


def table(rows: list[dict[str, Any]]) -> str:
    """The errors as a Markdown table: a line for each format, a column for each K."""
    sizes = sorted({row["k"] for row in rows})
    by_case = {(row["format"], row["k"]): row for row in rows}
    lines = [
        f"| format | {' | '.join(f'K = {k}' for k in sizes)} | with the rounding of inputs |",
        "|---|" + "---|" * (len(sizes) + 1),
    ]
    for name in dict.fromkeys(row["format"] for row in rows):
        found = [by_case[name, k] for k in sizes]
        cells = [_shown(row["arithmetic"]) for row in found]
        lines.append(f"| {name} | {' | '.join(cells)} | {_shown(found[0]['total'])} |")
    return "\n".join(lines) + "\n"


def _shown(error: float) -> str:
    return f"{error:.1e}" if error else "0"


def write_docs(results: Path) -> None:
    """Replace the table of docs/accuracy.md by one of recorded results."""
    data = json.loads(results.read_text(encoding="utf-8"))
    text = DOCS.read_text(encoding="utf-8")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    title = f"{data['card']}, {data['date'][:10]}, by `{data['command']}`:\n\n"
    DOCS.write_text(f"{head}{BEGIN}{title}{table(data['rows'])}{END}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="512,4096,16384", help="comma-separated K")
    parser.add_argument("--docs", type=Path, metavar="JSON", help="write the table of docs/accuracy.md")
    args = parser.parse_args()
    if args.docs:
        write_docs(args.docs)
        return
    torch = importlib.import_module("torch")
    from bench.timing import card, gpu_versions

    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, kernel in build(Path(folder)).items():
            rows += [measure(torch, name, kernel, int(k)) for k in args.sizes.split(",")]
    print(table(rows))
    summary = {f"accuracy.{row['format']}.{row['k']}": float(str(row["arithmetic"])) for row in rows}
    print(write_result(card(torch), "accuracy", rows, summary, extra_versions=gpu_versions(torch)))


if __name__ == "__main__":
    run_main(main)
