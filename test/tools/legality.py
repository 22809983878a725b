"""Legality against the compiler: what is accepted compiles, what is rejected for its types does not.

    python test/tools/legality.py --count 40 --rejected 40 --jobs 16 --seed 1 [--nvcc] [--forms]

Draws configurations, builds their skeletons past the legality passes, and prints how many that are accepted
compile and how many that are rejected fail, by code. Without `--nvcc` only g++ looks at the types of the host
half, which instantiates CUTLASS's collectives but none of their functions for the device: some of what is
rejected passes there (cooperative tiles of 64 rows of tf32, for one). With it nvcc makes PTX. The exit status
is 1 where something accepted does not compile.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from mucc.build.toolchain.assembly import host_flags
from mucc.build.toolchain.discover import INCLUDE_FLAGS, Toolchain, find_toolchain
from mucc.build.toolchain.flags import flags
from mucc.codegen.memory import EmissionError
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.core import Source
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Schedule
from mucc.kernels.gemm.scheduling.skinny import MAINLOOP as SKINNY
from mucc.kernels.gemm.scheduling.tma import TmaFamily
from mucc.kernels.gemm.settings import settings_of

KERNELS = (
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: f16[K, M], w: f16[K, N], b: f32[N]) -> f32[M, N] {\n"
    "    return relu(x.T @ w + b)\n}\n",
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K], c: bf16[M, N]) -> bf16[M, N] {\n"
    "    return silu(x @ w.T) + c\n}\n",
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> (y: bf16[M, N], s: f32[N]) {\n"
    "    y = x @ w.T\n    return y, sum(y, axis=0)\n}\n",
    "kernel f[M, N, K](x: f32[M, K], w: f32[N, K]) -> f32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: f32[M, K], w: f32[K, N]) -> f32[M, N] {\n    return x @ w\n}\n",
    "kernel f[M, N, K](x: f32[K, M], w: f32[N, K]) -> f32[M, N] {\n    return x.T @ w.T\n}\n",
    "kernel f[M, N, K](x: f32[M, K], w: f32[K, N]) -> f32[M, N] {\n"
    "    return matmul(x, w, compute=tf32x3)\n}\n",
    "kernel f[M, N=1001, K=77](x: f16[M, K], w: f16[K, N]) -> f16[M, N] {\n    return x @ w\n}\n",
)
"""Dtypes and layouts that are read in different ways, and epilogues that keep different things in memory."""

FORMS = (
    "kernel f[B, M, N, K](x: bf16[B, M, K], w: bf16[B, N, K], b: bf16[B, 1, N]) -> bf16[B, M, N] {\n"
    "    return x @ w.T + b\n}\n",
    # Operands of 8 bits, of one format and of two.
    "kernel f[M, N, K](x: s8[M, K], w: s8[N, K]) -> s32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: s8[M, K], w: u8[N, K], s: f32[N]) -> s8[M, N] {\n    return x @ w.T * s\n}\n",
    "kernel f[M, N, K](x: u8[M, K], w: s8[N, K]) -> f32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: e4m3[M, K], w: e5m2[N, K], s: f32[M]) -> bf16[M, N] {\n"
    "    return x @ w.T * s[:, None]\n}\n",
    "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K]) -> (y: e4m3[M, N], a: f32[]) {\n"
    "    y = matmul(x, w.T, acc=fast)\n    return y, amax(y)\n}\n",
    "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128])\n"
    "    -> bf16[M, N] {\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}\n",
    # Sparse operands and operands that are converted.
    "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K] sparse) -> bf16[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](w: f16[M, K] sparse, x: f16[K, N], s: f32[M]) -> f32[M, N] {\n"
    "    return w @ x * s[:, None]\n}\n",
    "kernel f[M, N, K](x: s8[M, K], w: s8[N, K] sparse) -> s32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: s8[M, K], w: u8[N, K] sparse) -> s32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: e4m3[M, K], w: e5m2[N, K] sparse) -> f32[M, N] {\n"
    "    return matmul(x, w.T, acc=fast)\n}\n",
    "kernel f[M, N, K](x: f32[M, K], w: f32[N, K] sparse) -> f32[M, N] {\n    return x @ w.T\n}\n",
    "kernel f[M, N, K](x: bf16[M, K], w: s8[N, K], s: bf16[N, K/64]) -> bf16[M, N] {\n"
    "    return x @ dequantize(w, s).T\n}\n",
    "kernel f[M, N, K](x: f16[M, K], w: u4[N, K], s: f16[N, K/128], z: u8[N, K/128]) -> f16[M, N] {\n"
    "    return x @ dequantize(w, s, z).T\n}\n",
    # Several problems in one kernel, several right operands, rows by number.
    "kernel f[T, E, N, K](x: bf16[T, K], w: bf16[E, N, K], o: s32[E], r: f32[T]) -> bf16[T, N] {\n"
    "    return grouped_matmul(x, w.T, o) * r[:, None]\n}\n",
    "kernel each f[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {\n"
    "    return x @ w.T + b\n}\n",
    "kernel f[M, N, K](x: bf16[M, K], g: bf16[N, K], u: bf16[N, K]) -> bf16[M, N] {\n"
    "    return silu(x @ g.T) * (x @ u.T)\n}\n",
    "kernel f[M, N, K](x: e4m3[M, K], g: e4m3[N, K], u: e4m3[N, K]) -> (y: bf16[M, N], s: f32[N]) {\n"
    "    y = silu(x @ g.T) * (x @ u.T)\n    return y, sum(y, axis=0)\n}\n",
    "kernel f[T, M, N, K](x: bf16[T, K], rows: s32[M], w: bf16[K, N]) -> f32[M, N] {\n"
    "    return gather(x, rows) @ w\n}\n",
    "kernel f[T, M, N, K](x: s8[T, K], rows: s32[M], w: u8[N, K]) -> s32[M, N] {\n"
    "    return gather(x, rows) @ w.T\n}\n",
)
"""Every other form of operand."""

AT_RUN_TIME = {"MU3006", "MU3008", "MU3012", "MU3013", "MU3017"}
"""Codes of what compiles, and spills registers, or is refused by CUTLASS or the driver at the launch."""


TAME = ((64, 128, 192, 256), (16, 32, 48, 64, 96, 128, 160, 192, 208, 256), (16, 32, 64, 128))
WILD = (
    (32, 64, 96, 128, 192, 256, 320),
    (8, 16, 24, 40, 64, 100, 128, 256, 264),
    (4, 8, 24, 32, 64, 96, 128),
)
"""Extents of tiles: such as are often legal, and such as break rules."""


class Case(NamedTuple):
    """A skeleton to compile, and the codes of the rules that its configuration breaks."""

    label: str
    codes: tuple[str, ...]
    device: str
    host: str


def draw(rng: random.Random, mainloops: tuple[str, ...], wild: bool, early: bool) -> Schedule:
    """A schedule; a wild one may break any rule."""
    rows, columns, depths = WILD if wild else TAME
    scheduler = rng.choice(("persistent", "persistent", "stream_k", "split_k"))
    clusters = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (8, 1)) + ((3, 1), (4, 4)) * wild
    return Schedule(
        (rng.choice(rows), rng.choice(columns), rng.choice(depths)),
        rng.choice(clusters),
        rng.choice(mainloops),
        scheduler,
        swizzle=1,
        splits=rng.choice((1, 3)) if scheduler != "persistent" else 1,
        stages=rng.choice((None, None, 2, 3, 12 if wild else None)),
        exchanged=rng.random() < 0.4,
        pdl=early and rng.random() < 0.2,
    )


def cases(target: str, rng: random.Random, accepted: int, rejected: int, forms: bool) -> Iterator[Case]:
    """So many of each, each schedule once."""
    machine = gemm_target(target)
    mainloops = tuple(
        m
        for f in machine.families
        for m in f.mainloops
        if m != SKINNY and (forms or isinstance(f, TmaFamily))
    )
    kernels = KERNELS + FORMS if forms else KERNELS
    compiled = cache(partial(_compiled, target))
    seen: set[tuple[str, Schedule]] = set()
    left = {True: accepted, False: rejected}
    while any(left.values()):
        text = rng.choice(kernels)
        schedule = draw(rng, mainloops, wild=rng.random() < 0.5, early=forms)
        compilation = compiled(text, schedule.mainloop if forms else mainloops[0])
        if compilation is None:
            continue
        gemm = _gemm(compilation)
        config = problem_of(gemm).config(schedule)
        codes = tuple(sorted({v.code for v in machine.violations(config, schedule.stages)}))
        if (text, schedule) in seen or not left[not codes] or (codes and set(codes) <= AT_RUN_TIME):
            continue
        seen.add((text, schedule))
        stages = schedule.stages or max(machine.max_stages(config), 2)
        gemm.exchange = gemm.pdl = None
        gemm.properties |= settings_of(replace(schedule, stages=stages))
        left[not codes] -= 1
        label = f"{schedule} of {text.splitlines()[0]}"
        try:
            (skeleton,) = compilation.parts().skeletons
        except EmissionError:
            if not codes:
                raise
            left[False] += 1  # what is rejected cannot even be written
            continue
        yield Case(label, codes, skeleton.device, skeleton.host)


def _compiled(target: str, text: str, mainloop: str) -> Compilation | None:
    """A kernel of one contraction with some legal schedule of a mainloop; None where that is not possible."""
    schedule = f"schedule f for {target} {{\n    mainloop = {mainloop}\n}}\n"
    try:
        compilation = compile_text(Source("f.mcu", text + schedule), Options(target))
    except DiagnosticError:
        return None
    contractions = [op for op in compilation.cutlass.walk() if isinstance(op, GemmOp)]
    return compilation if len(contractions) == 1 else None


def _gemm(compilation: Compilation) -> GemmOp:
    return next(op for op in compilation.cutlass.walk() if isinstance(op, GemmOp))


def compile_case(case: Case, toolchain: Toolchain, target: str, nvcc: bool) -> str | None:
    """None where it compiles, else the first error."""
    paths = toolchain.tools()
    with tempfile.TemporaryDirectory() as folder:
        if nvcc:
            Path(folder, "k.cu").write_text(case.device)
            includes = ("-ccbin", "{cxx}", *INCLUDE_FLAGS, "-I{cutlass}")
            command = ("{nvcc}", *flags("ptx", target), *includes, "k.cu", "-o", "k.ptx")
        else:
            Path(folder, "k.cpp").write_text(case.host)
            command = ("{cxx}", *host_flags(toolchain), "-fsyntax-only", "-include", "mucc_shim.h", "k.cpp")
        words = [word.format(**paths) for word in command]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    found = re.search(r"(static assertion failed[^\n]*|error: [^\n]*)", done.stderr)
    return found[1] if found else done.stderr[:300]


def run(target: str, seed: int, accepted: int, rejected: int, jobs: int, nvcc: bool, forms: bool) -> bool:
    """Print the counts; whether everything accepted compiled."""
    toolchain = find_toolchain()
    drawn = list(cases(target, random.Random(seed), accepted, rejected, forms))
    with ThreadPoolExecutor(jobs) as threads:
        compiling = partial(compile_case, toolchain=toolchain, target=target, nvcc=nvcc)
        errors = list(threads.map(compiling, drawn))
    results = list(zip(drawn, errors, strict=True))
    wrong = [(case, error) for case, error in results if not case.codes and error]
    good = sum(not case.codes and error is None for case, error in results)
    print(f"{target}, seed {seed}: {good} of {accepted} accepted configurations compile")
    for case, error in wrong:
        print(f"  DOES NOT COMPILE: {case.label}\n    {error}")
    failed = Counter(code for case, error in results for code in case.codes if error)
    total = Counter(code for case, _ in results for code in case.codes)
    bad = sum(bool(case.codes and error) for case, error in results)
    print(f"{bad} of {rejected} rejected configurations do not compile")
    for code, count in sorted(total.items()):
        print(f"  {code}: {failed[code]} of {count}")
    for case, error in results:
        if case.codes and not error:
            print(f"  COMPILES: {case.codes} {case.label}")
    return not wrong


def main() -> int:
    """Draw, compile, print; the exit status."""
    parser = argparse.ArgumentParser(description="Compare legality with what compiles.")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=4)
    parser.add_argument("--rejected", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--nvcc", action="store_true")
    parser.add_argument("--forms", action="store_true", help="all forms of operands, pdl too")
    a = parser.parse_args()
    try:
        return 0 if run(a.target, a.seed, a.count, a.rejected, a.jobs, a.nvcc, a.forms) else 1
    except DiagnosticError as error:
        print(error, file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
