"""Bodies that emission writes, compiled by g++ as functions of arrays."""

from __future__ import annotations

import ctypes as ct
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostlib import INCLUDE, cuda_paths

from bench.host import compiled
from mucc.codegen.body import compute_body, identity_body
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics import Source
from mucc.dialects.cutlass.nodes import ComputeOp, LoadOp, are_bits
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.kernels.map.op import MapOp


def kernels_of(expressions: Sequence[str], dtype: str) -> Compilation:
    """A kernel f0, f1, ... of x and y for each expression."""
    kernels = [
        f"kernel f{i}[N](x: {dtype}[N], y: {dtype}[N]) -> {dtype}[N] {{ return {text} }}"
        for i, text in enumerate(expressions)
    ]
    return compile_text(Source("functions.mcu", "\n".join(kernels)), Options())


def _function(program: ProgramOp) -> str:
    """A C function that applies the program's body to arrays; what it stores as s32 is converted."""
    (kernel,) = program.kernels
    assert isinstance(kernel, MapOp)
    computes = [op for op in kernel.nodes if isinstance(op, ComputeOp)]
    (store,) = kernel.stores
    value = computes[0].result if computes else store.value
    arrays: list[str] = []
    for value_in in computes[0].inputs if computes else (value,):
        load = value_in.owner
        assert isinstance(load, LoadOp)
        arrays.append("xy"[program.body.block.args.index(load.source)])  # type: ignore[arg-type]
    name = program.sym_name.data
    parameters = [f"p{i}" for i in range(len(arrays))]
    struct = f"Body_{name}"
    made = compute_body(struct, computes[0], parameters) if computes else identity_body(struct, *parameters)
    body = made.text
    result = f"{struct}::apply({', '.join(f'{array}[i]' for array in arrays)})"
    if store.destination.type.dtype == "s32" and not are_bits(value):  # type: ignore[union-attr]
        result = f"mucc::from_bits(mucc::to_s32({result}))"
    return (
        f'{body}\nextern "C" void {name}(int n, float const* x, float const* y, float* out) {{\n'
        f"  for (int i = 0; i < n; ++i) out[i] = {result};\n}}"
    )


def host_functions(compilation: Compilation, folder: Path, more: str = "", *flags: str) -> ct.CDLL:
    """A library with a function for each kernel, and further C++; skips the test where it cannot be built."""
    gxx, paths = shutil.which("g++"), cuda_paths()
    if gxx is None or paths is None:
        pytest.skip("needs g++ and the CUDA headers: pip install 'mucc[nvcc]'")
    programs = [op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp)]
    text = "\n".join(["#include <mucc/math.cuh>", *map(_function, programs), more])
    includes = [f"-I{INCLUDE}", f"-I{paths[0]}"]
    command = [gxx, "-std=c++17", "-O1", "-w", "-shared", "-fPIC", *flags, *includes]

    def build(made: Path) -> None:
        (folder / "f.cpp").write_text(text)
        subprocess.run([*command, str(folder / "f.cpp"), "-o", str(made)], check=True)

    key = (compiled.version(gxx), command, text)
    return ct.CDLL(str(compiled.library(key, folder / "f.so", build)))


def applied(library: ct.CDLL, name: str, x: Any, y: Any) -> Any:
    """What a function makes of two arrays of 32 bits, of their dtype."""
    out = np.empty_like(x)
    getattr(library, name)(len(x), *(a.ctypes.data_as(ct.c_void_p) for a in (x, y, out)))
    return out
