"""The host half of skeletons, built by plain g++, makes the parameter blocks that nvcc's host code makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from mucc.build.toolchain.assembly import host_flags
from mucc.build.toolchain.discover import INCLUDE_FLAGS, find_toolchain
from mucc.build.toolchain.flags import flags
from mucc.compiler.program import compile_source
from mucc.compiler.source import decode
from mucc.diagnostics.core import DiagnosticError

HARNESS = Path(__file__).with_name("host_half.cpp")

FAMILIES = {
    "cooperative": "gelu(x @ w.T + b)",
    "pingpong": "cast(x @ w.T * s + r, f32)",
    "warpspecialized": "relu(x @ w.T)",
    "stream_k": "x @ w.T + r",
}
"""Kernel families by mainloop or scheduler, each with another epilogue: vectors, scalars, matrices."""

PROGRAM = """\
kernel k[M, N, K](x: {t}[M, K], w: {t}[N, K], b: {t}[N], r: {t}[M, N], s: f32) -> {out}[M, N]
    where K % 8 == 0, N % 8 == 0
{{
    return {value}
}}

schedule k for sm_90a {{
    {setting}
}}
"""

CASES = {
    "cooperative": PROGRAM.format(
        t="bf16", out="bf16", value=FAMILIES["cooperative"], setting="mainloop = cooperative"
    ),
    "pingpong": PROGRAM.format(t="f16", out="f32", value=FAMILIES["pingpong"], setting="mainloop = pingpong"),
    "warpspecialized": PROGRAM.format(
        t="f32", out="f32", value=FAMILIES["warpspecialized"], setting="mainloop = warpspecialized"
    ),
    "stream_k": PROGRAM.format(
        t="bf16", out="bf16", value=FAMILIES["stream_k"], setting="scheduler = stream_k"
    ),
    "registers": "kernel k[M, N, K](x: f32[M, K], w: f32[K, N]) -> (y: f32[M, N], m: f32[N]) {\n"
    "    y = tanh(x @ w)\n    m = sum(y, axis=0)\n    return y, m\n}\n",
    "e4m3": "kernel k[M, N, K](x: e4m3[M, K], w: e4m3[N, K], s: f32[M]) -> (y: e4m3[M, N], m: f32[]) {\n"
    "    y = (x @ w.T) * s[:, None]\n    return y, amax(y)\n}\n",
    "s8": "kernel k[M, N, K](x: s8[M, K], w: u8[N, K]) -> s32[M, N] {\n    return x @ w.T\n}\n",
    "block_scales": "kernel k[M, N, K]("
    "x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128])\n"
    "    -> bf16[M, N] {\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}\n",
    "picked": "kernel k[T, M, N, K](x: bf16[T, K], rows: s32[M], w: bf16[N, K]) -> bf16[M, N] {\n"
    "    return gather(x, rows) @ w.T\n}\n",
    "batched": "kernel k[B, M, N, K](x: bf16[B, M, K], w: bf16[B, N, K], b: bf16[B, 1, N])\n"
    "    -> bf16[B, M, N] {\n"
    "    return relu(x @ w.T + b)\n}\n",
}


def block(executable: Path) -> list[str]:
    """The bytes that a harness prints, `..` for those that nobody sets."""
    text = subprocess.run([executable], check=True, capture_output=True, text=True).stdout
    return [text[i : i + 2] for i in range(0, len(text), 2)]


CLEAN = "-ftrivial-auto-var-init=zero"
"""What is never set would be what happens to lie on the stack: both compilers zero it."""


class Halves(NamedTuple):
    """The host code of all cases in one object, by each compiler, and the symbols of the skeletons."""

    folder: Path
    symbols: dict[str, str]


def build(folder: Path, *command: str) -> None:
    """Run a compiler in a folder."""
    words = [word.format(**find_toolchain().tools()) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


SHARE = ("cooperative", "picked")
"""Cases that are not left to a run of the long tests: operands that TMA copies, and such that threads do."""


@pytest.fixture(scope="module")
def halves(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Halves:
    """All cases that run in one file, since reading the headers takes most of the time."""
    mine = (item for item in request.session.items if item.path == request.path)
    wanted = {item.callspec.params["name"] for item in mine if hasattr(item, "callspec")}
    try:
        toolchain = find_toolchain()
        toolchain.tools()
    except DiagnosticError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("halves")
    texts: list[str] = []
    symbols: dict[str, str] = {}
    for name, text in CASES.items():
        if name not in wanted:
            continue
        (skeleton,) = compile_source(decode(text.encode(), f"{name}.mcu"), "sm_90a").parts().skeletons
        symbols[name] = f"{name}_{skeleton.symbol}"
        for word in ("mucc_skeleton", skeleton.symbol):
            texts.append(f"#define {word} {name}_{word}\n")
        texts.append(f"{skeleton.host}\n#undef mucc_skeleton\n#undef {skeleton.symbol}\n")
    # They launch kernels by name: for the device nvcc would parse CUTLASS to compile nothing.
    host = ["#ifndef __CUDA_ARCH__\n", *texts, "#endif\n"]
    (folder / "skeletons.cpp").write_text("".join(host))
    half = ("-include", "mucc_shim.h", "-c", "skeletons.cpp", "-o", "plain.o")
    build(folder, "{cxx}", *host_flags(toolchain), CLEAN, *half)
    whole = [f for f in flags("so", "sm_90a") if f not in ("-shared", "-O3")]
    includes = ("-ccbin", "{cxx}", *INCLUDE_FLAGS, "-I{cutlass}")
    options = (*whole, "-O1", f"-Xcompiler={CLEAN}", *includes)
    build(folder, "{nvcc}", "-x", "cu", *options, "-c", "skeletons.cpp", "-o", "nvcc.o")
    return Halves(folder, symbols)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "name", [n if n in SHARE else pytest.param(n, marks=pytest.mark.long) for n in CASES]
)
def test_the_parameter_block_is_that_of_nvcc(name: str, halves: Halves) -> None:
    defines = (f"-DSKELETON={halves.symbols[name]}", f"-DBATCH={7 if name == 'batched' else 1}")
    harness = ("-std=c++17", "-O1", CLEAN, *INCLUDE_FLAGS, "-I{cuda}", *defines)
    build(halves.folder, "{cxx}", *harness, "-c", str(HARNESS), "-o", f"{name}.o")
    blocks: list[list[str]] = []
    for half in ("plain", "nvcc"):
        build(halves.folder, "{cxx}", f"{name}.o", f"{half}.o", "-o", f"{name}.{half}")
        blocks.append(block(halves.folder / f"{name}.{half}"))
    plain, nvcc = blocks
    assert len(plain) == len(nvcc) > 1000
    differing = [i for i, (p, n) in enumerate(zip(plain, nvcc, strict=True)) if p != n and ".." not in (p, n)]
    assert differing == []
    assert plain.count("..") < len(plain) / 4  # the comparison is about most of it


def test_the_harness_sees_what_differs() -> None:
    """The stand-in for the driver makes every argument of a tensor map count."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    text = HARNESS.read_text()
    for argument in (
        "type",
        "rank",
        "dims[i]",
        "strides[i]",
        "box[i]",
        "steps[i]",
        "swizzle",
        "promotion",
        "fill",
    ):
        assert f"take({argument})" in text
