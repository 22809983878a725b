"""Every example and every program of `programs/`: compiled, run, compared with the float64 interpreter.

Sizes are drawn anew in every run, odd ones included; the seed is in the test's message, and `MUCC_TEST_SEED`
sets it. Outputs hold NaN before each call, so that an element that is not written shows. Of a wrong result
the message has the seed of the inputs, the element farthest off, and whether more calls give the same bits.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.library.dims import holds
from mucc.library.signature import KernelInfo
from mucc.measure.verify import against, references

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted([*(HERE / "programs").glob("*.mcu"), *(HERE.parents[1] / "examples").glob("*.mcu")])
SMALL = ("B", "E", "J")
SIZES = (1, 2, 3, 5, 8, 13, 16, 24, 32, 40, 64, 72, 77, 128, 129, 136, 160, 200, 256, 264, 384, 512, 1032)
"""Of each alignment that programs ask for, up to 256, there are some."""


MOST = 1 << 26
"""The most elements of the tensors of a call: the reference takes some 100 bytes of the GPU for each."""


def elements(info: KernelInfo, dims: dict[str, int]) -> int:
    """The elements of all tensors of a call."""
    return sum(math.prod(arg.extents(dims)) for arg in info.args if arg.role != "scalar")


def draw_dims(info: KernelInfo, rng: random.Random) -> dict[str, int]:
    """Random sizes that keep the kernel's promises; what counts batches, heads or experts stays small.

    `H` counts heads where there are batches, and else hidden columns.
    """
    small = (*SMALL, *"H"[: "B" in info.dims])
    for _ in range(100_000):
        dims = {
            n: rng.choice(SIZES[:5] if n in small else SIZES) if v is None else v
            for n, v in info.dims.items()
        }
        if all(holds(text, dims) for text, _ in info.promises) and elements(info, dims) <= MOST:
            return dims
    raise AssertionError(f"{info.name}: none of SIZES keep its promises: {info.promises}")


def smallest_dims(info: KernelInfo) -> dict[str, int]:
    """The least sizes that keep the promises."""
    dims = {n: 1 if v is None else v for n, v in info.dims.items()}
    for name, value in info.dims.items():
        while value is None and not all(holds(t, dims) for t, _ in info.promises if name in t):
            dims[name] += 1
    return dims


CALLS = 5
"""Further calls after a wrong result: a race, or memory that is not set, gives other bits in some."""


def calls_again(torch: Any, kernel: Any, arguments: Sequence[Any], outputs: Sequence[Any]) -> str:
    """Launch the same call again, and say in how many bytes of each output the results differ."""
    from mucc.measure.run_gpu import poison

    def bits() -> list[Any]:
        return [output.reshape(-1).view(torch.uint8).clone() for output in outputs]

    first, found = bits(), list[list[int]]()
    for _ in range(CALLS):
        for output in outputs:
            poison(output)
        kernel.launch(*arguments)
        torch.cuda.synchronize()
        found.append([int((a != b).sum()) for a, b in zip(first, bits(), strict=True)])
    return f"bytes of each output that further calls change: {found}"


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_program(path: Path, library: Any) -> None:
    torch = pytest.importorskip("torch")
    from mucc.measure.run_gpu import empty, poison, random_inputs

    compilation = compile_text(Source(path.name, path.read_text(encoding="utf-8")))
    module = library(path)
    seed = int(os.environ.get("MUCC_TEST_SEED") or random.SystemRandom().randrange(2**31))
    rng = random.Random(seed)
    for kernel in module.kernels:
        info = kernel.info
        cases = [[smallest_dims(info)], *([draw_dims(info, rng)] for _ in range(8))]
        if info.each:
            cases += [[draw_dims(info, rng) for _ in range(count)] for count in (2, 7, 40)]
        for problems in cases:
            seeds = [rng.randrange(2**31) for _ in problems]
            inputs = [random_inputs(info, dims, s, "cuda") for dims, s in zip(problems, seeds, strict=True)]
            outputs = [[empty(a, dims, "cuda") for a in info.outputs] for dims in problems]
            for output in (o for own in outputs for o in own):
                poison(output)
            given = [[*a, *b] for a, b in zip(inputs, outputs, strict=True)]
            arguments = given[0] if len(given) == 1 else [*map(list, zip(*given, strict=True))]
            kernel.launch(*arguments)
            torch.cuda.synchronize()
            for dims, own, results, drawn in zip(problems, inputs, outputs, seeds, strict=True):
                arrays = [torch.tensor(v, device="cuda") if isinstance(v, float) else v for v in own]
                expected = references(compilation, info, arrays)
                for arg, out, wanted in zip(info.outputs, results, expected, strict=True):
                    verdict = against(arg.name, arg.dtype, out.double(), wanted, torch)
                    if not verdict.good:
                        again = calls_again(torch, kernel, arguments, [o for own in outputs for o in own])
                        what = f"{info.name} {dims} of {len(given)} seed {seed}, inputs {drawn}"
                        pytest.fail(f"{what}: {verdict}; {again}")
