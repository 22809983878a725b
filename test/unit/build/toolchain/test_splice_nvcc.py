"""Spliced kernels in the hands of ptxas: it takes them, and makes the code of an ordinary build."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import pytest
from ptx_machine import asm, entry, module

from mucc.build.toolchain.discover import Tool, find_nvcc, root
from mucc.build.toolchain.splice import BodyCode, read_bodies, splice

pytestmark = pytest.mark.nvcc

LIBRARY = {
    "erf": "y0 = erff(x0) * x1;",
    "exp": "y0 = expf(x0);",
    "tanh": "y0 = tanhf(x0);",
    "pow": "y0 = powf(x0, x1);",
    "log1p": "y0 = log1pf(x0);",
    "sin": "y0 = sinf(x0) + cosf(x1);",
    "tan": "y0 = tanf(x0) * atan2f(x0, x1);",
    "fmod": "y0 = fmodf(x0, x1) + rintf(x0);",
    "double": "y0 = float(exp(double(x0)));",
    "loop": "y0 = 0; for (int i = 0; i < int(x0); ++i) y0 = y0 * x1 + 1.f;",
    "returns": "y0 = early(x0, x1);",
    "call": "y0 = call(x0, x1);",
    "cases": "switch (int(x0)) { case 0: y0 = x1; break; case 1: y0 = expf(x1); break; case 2: y0 = 1.f / x1;"
    " break; case 3: y0 = sqrtf(x1); break; case 4: y0 = x1 - x0; break; default: y0 = 3.f; }",
    "two outputs": "y0 = x0 > 0.f && x1 < 3.f ? log1pf(x0) : tanhf(x1); y1 = powf(x0, x1);",
}
"""Bodies whose machine code may differ from nvcc's: with branches, it moves other code between them."""

PLAIN = {
    "add": "y0 = x0 + x1;",
    "constant": "y0 = 1.0f;",
    "same": "y0 = x1;",
    "silu": "y0 = __fdividef(x0, 1.f + __expf(-x0));",
    "gate": "y0 = __fdividef(x0, 1.f + __expf(-x0)) * x1;",
    "select": "y0 = x0 > x1 ? x0 * 2.f : x1 - 3.f;",
    "logic": "y0 = (!(x0 <= 0.f) && x1 >= 0.f || x0 == x1) ? x0 : 2.f * x1;",
    "round": 'asm("{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; cvt.f32.bf16 %0, h; }" : "=f"(y0) : "f"(x0));',
    "table": "y0 = x0 * table[__float_as_int(x1) & 3];",
    "two outputs": "y0 = x0 * x1; y1 = fabsf(y0) + x0;",
    "swap": "y0 = x1; y1 = x0;",
}
"""Bodies whose machine code must be that of an ordinary build."""

HELPERS = """\
__constant__ float table[4] = {1.f, 2.f, 3.f, 5.f};
static __device__ __noinline__ float call(float a, float b) { return a > b ? a * 2.f : b + powf(a, b); }
static __device__ __forceinline__ float early(float a, float b) {
  if (a > b) return a * 2.f;
  if (b > 7.f) { if (a < 1.f) return expf(a); return a; }
  return b + powf(a, b);
}
"""


APPLY = "static __device__ __forceinline__ void apply(float x0, float x1, float& y0, float& y1)"
CODES = [*LIBRARY.values(), *PLAIN.values()]


def body_structs() -> str:
    """What all bodies are, by number."""
    bodies = (f"struct Body{i} {{ {APPLY} {{ {code} }} }};\n" for i, code in enumerate(CODES))
    return HELPERS + "".join(bodies)


def body_source(number: int) -> str:
    """The source of a body as an entry, with two inputs and as many outputs as its code has."""
    outputs, places = ('"f"(y0), "f"(y1)', "%0, %1") if "y1" in CODES[number] else ('"f"(y0)', "%0")
    return (
        f'extern "C" __global__ void mucc_body_{number}() {{ float x0, x1, y0, y1;\n'
        f'asm volatile("// mucc.in %0, %1" : "=f"(x0), "=f"(x1)); Body{number}::apply(x0, x1, y0, y1);\n'
        f'asm volatile("// mucc.out {places}" :: {outputs}); }}\n'
    )


def kernel_source(name: str, two: bool, number: int | None = None) -> str:
    """A kernel that applies a body to four elements at a time, or has markers for body 0.

    Loads and stores keep their order.
    """
    apply = f"Body{number}::apply(x0[v], x1[v], y0[v], y1[v]);"
    if number is None:
        operands = "%0, %1, %2, %3" if two else "%0, %1, %2"
        outputs = '"=f"(y0[v]), "=f"(y1[v])' if two else '"=f"(y0[v])'
        apply = f'asm("// mucc.body 0 {1 + two}: {operands}" : {outputs} : "f"(x0[v]), "f"(x1[v]));'
    load = 'asm volatile("ld.global.f32 %0, [%1];" : "=f"({0}[v]) : "l"({1} + i + v) : "memory");'
    store = 'asm volatile("st.global.f32 [%0], %1;" :: "l"({1} + i + v), "f"({0}[v]) : "memory");'
    each = '_Pragma("unroll") for (int v = 0; v < 4; ++v)'
    lines = [f"{each} {load.replace('{0}', x).replace('{1}', p)}" for x, p in (("x0", "p"), ("x1", "q"))]
    lines.append(f"{each} {{ {apply} }}")
    lines += [
        f"{each} {store.replace('{0}', y).replace('{1}', p)}"
        for y, p in (("y0", "r"), ("y1", "s"))[: 1 + two]
    ]
    return (
        f'extern "C" __global__ void {name}(float const* p, float const* q, float* r, float* s, int n) {{\n'
        + "int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;\n"
        + "for (; i < n; i += gridDim.x * blockDim.x * 4) {\n"
        + "float x0[4], x1[4], y0[4], y1[4];\n"
        + "\n".join(lines)
        + "\n}}\n"
    )


class Compilers:
    """nvcc and ptxas in a directory for what they make. nvcc compiles all bodies at once."""

    def __init__(self, nvcc: Tool, directory: Path):
        self.nvcc = nvcc
        self.directory = directory

    @cached_property
    def bodies(self) -> Mapping[int, BodyCode]:
        return read_bodies(self.ptx(body_structs() + "".join(map(body_source, range(len(CODES))))))

    @cached_property
    def skeletons(self) -> tuple[str, str]:
        """The PTX of kernels with markers for a body of one output, and of two."""
        one, two = (self.ptx(kernel_source("kernel", two)) for two in (False, True))
        return one, two

    @cached_property
    def ordinary(self) -> bytes:
        """The machine code of kernels with the bodies of PLAIN in them, `kernel_` and a number each."""
        numbers = range(len(LIBRARY), len(CODES))
        kernels = [kernel_source(f"kernel_{n}", "y1" in CODES[n], n) for n in numbers]
        return self.assemble(self.ptx(body_structs() + "".join(kernels)))

    def ptx(self, source: str) -> str:
        (self.directory / "k.cu").write_text(source)
        command = [self.nvcc.path, "-w", "-std=c++17", "-O3", "-gencode=arch=compute_90a,code=compute_90a"]
        subprocess.run([*command, "-ptx", "k.cu", "-o", "k.ptx"], check=True, cwd=self.directory)
        return (self.directory / "k.ptx").read_text()

    def assemble(self, ptx: str) -> bytes:
        (self.directory / "k.ptx").write_text(ptx)
        ptxas = str(Path(root(self.nvcc)) / "bin" / "ptxas")
        command = [ptxas, "-arch=sm_90a", "-O3", "k.ptx", "-o", "k.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.directory)
        assert done.returncode == 0, done.stderr
        return (self.directory / "k.cubin").read_bytes()

    def spliced(self, code: str) -> str:
        return splice(self.skeletons["y1" in code], {0: self.bodies[CODES.index(code)]})


@pytest.fixture(scope="module")
def compilers(tmp_path_factory: pytest.TempPathFactory) -> Compilers:
    if not (nvcc := find_nvcc()):
        pytest.skip("needs nvcc: pip install 'mucc[nvcc]'")
    return Compilers(nvcc, tmp_path_factory.mktemp("splice"))


def machine_code(cubin: bytes, kernel: str = "kernel") -> bytes:
    """The code of a kernel in an ELF file."""
    wanted = f".text.{kernel}".encode()
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, offset + i * size) for i in range(count)]
    for name, _, _, _, start, length in sections:
        begin = sections[names][4] + name
        if cubin[begin : cubin.index(0, begin)] == wanted:
            return cubin[start : start + length]
    raise AssertionError("there is no such section")


@pytest.mark.parametrize("name", LIBRARY)
def test_ptxas_takes_what_is_spliced(name: str, compilers: Compilers):
    spliced = compilers.spliced(LIBRARY[name])
    assert "mucc.body" not in spliced and spliced.count("%mu_") >= 4
    assert len(machine_code(compilers.assemble(spliced))) > 256


@pytest.mark.parametrize("name", PLAIN)
def test_the_machine_code_is_that_of_an_ordinary_build(name: str, compilers: Compilers):
    ordinary = machine_code(compilers.ordinary, f"kernel_{CODES.index(PLAIN[name])}")
    assert machine_code(compilers.assemble(compilers.spliced(PLAIN[name]))) == ordinary


def test_ptxas_scopes_registers_and_labels_to_blocks(compilers: Compilers):
    branches = entry(
        0,
        asm("// mucc.in %f1, %f2")
        + "\tsetp.lt.f32 %p1, %f1, 0f00000000;\n\t@%p1 ret;\n\tcvt.rzi.s32.f32 %r1, %f2;\n"
        + "$table:\n\t.branchtargets $L__BB0_1, $L__BB0_2;\n\tbrx.idx %r1, $table;\n"
        + '$L__BB0_1:\n\t.pragma "nounroll";\n\tadd.f32 %f1, %f1, %f2;\n\tbra.uni $L__BB0_3;\n'
        + "$L__BB0_2:\n\tneg.f32 %f1, %f1;\n$L__BB0_3:\n"
        + asm("// mucc.out %f1")
        + "\tret;\n",
        ".reg .f32 %f<4>; .reg .pred %p<2>; .reg .b32 %r<2>;",
    )
    text, _ = compilers.skeletons
    assert "$L__BB0_2" in text and text.count("// mucc.body") == 4
    machine_code(compilers.assemble(splice(text, read_bodies(module(branches)))))
