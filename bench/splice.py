"""Kernels put together from a skeleton and a body against the same programs compiled whole by nvcc.

    python -m bench.splice --so-plain DIR --so-split DIR [--only NAME,…] [--iters N] [--shape MxNxK]

Both folders hold NAME.so for the programs of `bench.epilogues`. For each one: both builds run on the same new
random inputs, over outputs full of NaN, at an odd size and at a large one, and their outputs are compared bit
by bit, at the odd size with the float64 interpreter too; both are timed in turns with a cold L2; and their
machine code is compared. The exit status is 1 where results are wrong or differ, or a library is missing.
"""

from __future__ import annotations

import argparse
import importlib
import math
import random
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.common import ROOT, run_main, write_result
from bench.epilogues import EPILOGUES, Epilogue
from bench.fused import parse_shape
from bench.sass import Comparison, compare
from bench.timing import card, gpu_versions, time_all
from mucc.build.toolchain.machine_code import find_cuobjdump, functions_of
from mucc.measure.run import gpu_problem

if TYPE_CHECKING:
    from mucc.runtime.kernel import Kernel

BUILDS = ("plain", "split")
CLOSE = 0.02
"""Times that are further apart than this part are taken again, from more calls, before they are believed."""


@dataclass(slots=True)
class Row:
    """One program. A field is None where something was in the way, which `problem` names.

    `error` is the worst relative Frobenius error of an output. `sass_differences` counts the instructions in
    which the builds differ, of `sass_instructions`; `sass_encodings` counts those too whose text is the same
    but whose scheduling is not.
    """

    name: str
    family: str
    has_library_calls: bool
    seed: int
    dims: str = ""
    equal_bits: bool | None = None
    error: float | None = None
    plain_ms: float | None = None
    split_ms: float | None = None
    time_ratio: float | None = None
    sass_differences: int | None = None
    sass_encodings: int | None = None
    sass_instructions: int | None = None
    problem: str = ""

    def blame(self, problem: str) -> None:
        """Note one more thing that was in the way."""
        self.problem = f"{self.problem}; {problem}" if self.problem else problem


def draw_dims(rng: random.Random) -> dict[str, int]:
    """A size with rests in every direction: M is odd, N and K are multiples of 8."""
    return {"M": 2 * rng.randrange(70, 400) + 1, "N": 8 * rng.randrange(9, 90), "K": 8 * rng.randrange(5, 60)}


class Case:
    """One program in two builds, on a GPU."""

    def __init__(self, torch: Any, epilogue: Epilogue, libraries: Sequence[Path]):
        import mucc

        self.torch = torch
        self.epilogue = epilogue
        self.kernels: list[Kernel] = [mucc.load(library)[epilogue.name] for library in libraries]
        self.info = self.kernels[0].info

    def inputs(self, dims: dict[str, int], seed: int) -> list[Any]:
        """Random inputs; of -1, 0 and 1 where the program needs whole numbers."""
        from mucc.measure.run_gpu import random_inputs

        inputs = random_inputs(self.info, dims, seed, self.torch.device("cuda"))
        if self.epilogue.whole_numbers:
            for value in inputs:
                value.copy_(self.torch.randint(-1, 2, value.shape, device=value.device))
        return inputs

    def empty(self, inputs: Sequence[Any]) -> list[Any]:
        """Outputs for these inputs, full of NaN."""
        from mucc.runtime.torch_glue import TorchKernel

        outputs = TorchKernel(self.kernels[0]).allocate(inputs)
        for output in outputs:
            output.fill_(math.nan)
        return outputs

    def equal(self, dims: dict[str, int], seed: int) -> tuple[bool, list[Any], list[list[Any]]]:
        """Whether both builds give the same bits, and no NaN; the inputs; the outputs of each build."""
        inputs = self.inputs(dims, seed)
        results: list[list[Any]] = []
        for kernel in self.kernels:
            outputs = self.empty(inputs)
            kernel.launch(*inputs, *outputs)
            self.torch.cuda.synchronize()
            results.append(outputs)
        same = all(self._same_bits(a, b) for a, b in zip(*results, strict=True))
        return same, inputs, results

    def _same_bits(self, a: Any, b: Any) -> bool:
        words = {2: self.torch.int16, 4: self.torch.int32}[a.element_size()]
        return bool(self.torch.equal(a.view(words), b.view(words)) and not a.isnan().any())

    def error(self, inputs: Sequence[Any], results: Sequence[Sequence[Any]]) -> float:
        """The worst relative error against the float64 interpreter. Raises AssertionError past tolerance."""
        from mucc.compiler.driver import compile_text
        from mucc.diagnostics import Source
        from mucc.measure.verify import against, references

        arrays = [self.torch.tensor(v, device="cuda") if isinstance(v, float) else v for v in inputs]
        compilation = compile_text(Source(f"{self.epilogue.name}.mcu", self.epilogue.text))
        expected = references(compilation, self.info, arrays)
        worst = 0.0
        for build, outputs in zip(BUILDS, results, strict=True):
            for arg, out, want in zip(self.info.outputs, outputs, expected, strict=True):
                verdict = against(arg.name, arg.dtype, out.double(), want, self.torch)
                if not verdict.good:
                    raise AssertionError(f"the {build} build gives wrong results: {verdict}")
                worst = max(worst, verdict.relative)
        return worst

    def times(self, dims: dict[str, int], seed: int, iters: int) -> dict[str, float]:
        """Median ms of each build, on one set of tensors."""
        torch = self.torch
        inputs = self.inputs(dims, seed)
        outputs = self.empty(inputs)
        size = max(kernel.workspace_bytes(*inputs, *outputs) for kernel in self.kernels)
        workspace = [torch.empty(size, dtype=torch.uint8, device="cuda")] if size else []
        args = (*inputs, *outputs, *workspace)
        plain, split = (kernel.ffi for kernel in self.kernels)
        calls = {"plain": lambda: plain(*args), "split": lambda: split(*args)}
        times = time_all(torch, calls, iters)
        if abs(times["split"] / times["plain"] - 1) > CLOSE:
            times = time_all(torch, calls, 4 * iters)
        return times

    def measure(self, row: Row, large: dict[str, int], iters: int) -> None:
        """Fill in what comes from running the builds."""
        rng = random.Random(row.seed)
        dims = draw_dims(rng)
        row.dims = ",".join(f"{n}={v}" for n, v in dims.items())
        equal, inputs, results = self.equal(dims, rng.randrange(2**31))
        row.equal_bits = equal
        row.error = self.error(inputs, results)
        row.equal_bits = self.equal(large, rng.randrange(2**31))[0] and equal
        times = self.times(large, rng.randrange(2**31), iters)
        row.plain_ms, row.split_ms = times["plain"], times["split"]
        row.time_ratio = row.split_ms / row.plain_ms


def machine_code(cuobjdump: str, libraries: Sequence[Path]) -> Comparison | str:
    """How the machine code of two builds differs, or why that cannot be told."""
    try:
        plain, split = (functions_of(library, cuobjdump) for library in libraries)
    except (subprocess.CalledProcessError, OSError, ValueError) as error:
        return f"no machine code: {error}"
    return compare(plain, split) if plain and split else "no machine code was found"


def compare_code(rows: Sequence[Row], libraries: Sequence[Sequence[Path]]) -> None:
    """Fill in how the machine code differs."""
    if (cuobjdump := find_cuobjdump()) is None:
        for row in rows:
            row.blame("there is no cuobjdump: machine code was not compared")
        return
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(partial(machine_code, cuobjdump), libraries)
        for row, result in zip(rows, results, strict=True):
            if isinstance(result, str):
                row.blame(result)
                continue
            row.sass_differences, row.sass_encodings = result.instructions, result.encodings
            row.sass_instructions = result.of


def summarise(rows: Sequence[Row]) -> dict[str, float]:
    """The figures: numbers of programs, and ratios of the split build's times to the plain one's."""
    without = [r for r in rows if not r.has_library_calls]
    summary = {
        "splice.epilogues": float(len(rows)),
        "splice.bitwise_equal": float(sum(r.equal_bits is True for r in rows)),
        "splice.without_library": float(len(without)),
        "splice.same_sass_without_library": float(sum(r.sass_differences == 0 for r in without)),
        "splice.same_sass": float(sum(r.sass_differences == 0 for r in rows)),
    }
    if ratios := [r.time_ratio for r in rows if r.time_ratio is not None]:
        summary["splice.time_ratio_worst"] = round(max(ratios), 4)
        summary["splice.time_ratio_geomean"] = round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 4)
    return summary


def line(row: Row) -> str:
    """A row for people."""

    def shown(value: float | None, form: str) -> str:
        return format("-", f">{len(format(0, form))}") if value is None else format(value, form)

    bits = {True: "same bits", False: "OTHER BITS", None: "not run"}[row.equal_bits]
    return (
        f"{row.name:<26} {bits:<10} error {shown(row.error, '7.1e')}  {shown(row.plain_ms, '7.4f')} ms"
        f" x{shown(row.time_ratio, '6.3f')}  SASS {shown(row.sass_differences, '5d')} differ,"
        f" scheduled {shown(row.sass_encodings, '5d')}, of {shown(row.sass_instructions, '5d')}"
        f"{'  library' if row.has_library_calls else ''}{'  ' + row.problem if row.problem else ''}"
    )


def main() -> int:
    """Measure, print a line for each program, write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for build in BUILDS:
        default = ROOT / "build" / "splice" / build
        text = f"the folder of the {build} builds (default: build/splice/{build})"
        parser.add_argument(f"--so-{build}", type=Path, default=default, help=text)
    parser.add_argument("--only", default="", help="comma-separated names of epilogues (default: all)")
    parser.add_argument("--iters", type=int, default=60, help="timed calls of each build (default: 60)")
    parser.add_argument("--shape", default="8192x8192x512", help="the large size (default: 8192x8192x512)")
    options = parser.parse_args()
    if problem := gpu_problem("sm_90a"):
        parser.exit(1, f"{parser.prog}: {problem}\n")
    torch: Any = importlib.import_module("torch")
    names = [e.name for e in EPILOGUES]
    wanted: list[str] = options.only.split(",") if options.only else names
    if unknown := sorted(set(wanted) - set(names)):
        parser.error(f"there is no epilogue {', '.join(unknown)}")
    large = dict(zip("MNK", parse_shape(options.shape), strict=True))
    rows: list[Row] = []
    ready: dict[str, list[Path]] = {}
    for epilogue in (e for e in EPILOGUES if e.name in wanted):
        seed = random.SystemRandom().randrange(2**31)
        rows.append(Row(epilogue.name, epilogue.family, epilogue.has_library_calls, seed))
        libraries = [folder / f"{epilogue.name}.so" for folder in (options.so_plain, options.so_split)]
        missing = [build for build, path in zip(BUILDS, libraries, strict=True) if not path.is_file()]
        if missing:
            rows[-1].blame(f"there is no {' and no '.join(missing)} build")
        else:
            ready[epilogue.name] = libraries
    # Before anything is timed, since it keeps the processor busy.
    compare_code([row for row in rows if row.name in ready], list(ready.values()))
    epilogues = {e.name: e for e in EPILOGUES}
    for row in rows:
        if row.name in ready:
            try:
                case = Case(torch, epilogues[row.name], ready[row.name])
                case.measure(row, large, options.iters)
            except Exception as error:
                row.blame(f"{type(error).__name__}: {error}")
        print(line(row), flush=True)
    summary = summarise(rows)
    print("\n".join(f"{name:<36} {value:g}" for name, value in summary.items()))
    records = [asdict(row) for row in rows]
    print(write_result(card(torch), "splice", records, summary, extra_versions=gpu_versions(torch)))
    return 0 if all(row.equal_bits and not row.problem for row in rows) else 1


if __name__ == "__main__":
    run_main(main)
