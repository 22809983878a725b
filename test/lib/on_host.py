"""Whole programs on the host: the emitted entry, map and reduction kernels run, contractions are stand-ins.

A stand-in multiplies what the program's description of the problem points to, by the strides that the
kernel's types fix or the description gives, and refuses what TMA would not map. See on_host.h.
"""

from __future__ import annotations

import ctypes as ct
import hashlib
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import compiled
import numpy as np
import pytest
from hostlib import CPU, CUDA, DTYPES, Device, DType, Tensor
from numpy.lib.stride_tricks import as_strided

from mucc.codegen.memory import VIEW_TYPES, ZERO, Places, Product
from mucc.codegen.reductions import REDUCTIONS
from mucc.compiler.driver import Compilation, compile_text
from mucc.diagnostics import Source
from mucc.dialects.cutlass.nodes import ComputeOp, InsideOp, LoadNode
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.schedule_attributes import Mainloop
from mucc.dialects.mu.types import TensorType, dtype_bits
from mucc.files.package import INCLUDES, header_path
from mucc.kernels.gemm.emission.families import gemm_of
from mucc.kernels.gemm.emission.gemm import Gemm
from mucc.kernels.gemm.emission.graph import ordered
from mucc.kernels.gemm.emission.lean import LeanEpilogue
from mucc.kernels.gemm.emission.problem import Matrix
from mucc.kernels.gemm.nodes import AccFetchOp, AuxLoadOp, GroupReduceOp, GroupStoreOp, SrcFetchOp
from mucc.kernels.gemm.op import GemmOp
from mucc.library.signature import Arg, KernelInfo, Manifest
from mucc.measure.indices import draw_indices

HERE = Path(__file__).parent

_ON_HOST = (
    ("view.cuh", r'asm\("cvt\.f32\.f16 [^;]*;"[^;]*;', "result = on_host::from_f16(x.bits);"),
    ("view.cuh", r'asm\("cvt\.rn\.bf16\.f32 [^;]*;"[^;]*;', "to.bits = on_host::to_bf16(x);"),
    ("view.cuh", r'asm\("cvt\.rn\.f16\.f32 [^;]*;"[^;]*;', "to.bits = on_host::to_f16(x);"),
    ("pack.cuh", r'asm volatile\("ld\.global.*?\)\);', "std::memcpy(to, from, 16);"),
    (
        "shared.cuh",
        r"extern __shared__ [^;]*;\s*return dynamic_bytes;",
        "return on_host::dynamic[on_host::block];",
    ),
    (
        "shared.cuh",
        r"return uint32_t\(__cvta_generic_to_shared\(at\)\);",
        "return uint32_t(static_cast<char const*>(at) - on_host::dynamic[on_host::block]);",
    ),
    ("rows.cuh", r'asm volatile\("st\.relaxed[^;]*;[^;]*;', "*slot = both;"),
    ("rows.cuh", r'asm volatile\("ld\.relaxed[^;]*;[^;]*;', "on_host::pause(); both = *slot;"),
    ("attention.cuh", r'asm volatile\("cp\.async\.cg[^;]*;[^;]*;', "on_host::copy_piece(to, from, wanted);"),
    ("attention.cuh", r'asm volatile\("cp\.async\.(commit|wait)_group[^;]*;[^;]*;', ""),
    (
        "attention.cuh",
        r'asm volatile\("ldmatrix[^;]*x4\.shared[^;]*;[^;]*;',
        "on_host::matrices(x, row, false);",
    ),
    (
        "attention.cuh",
        r'asm volatile\("ldmatrix[a-z.0-9]*x4\.trans[^;]*;[^;]*;',
        "on_host::matrices(x, row, true);",
    ),
    (
        "attention.cuh",
        r'asm\("mma\.sync[a-z0-9.]*\.(b?f16)\.f32 [^;]*;[^;]*;',
        r"on_host::multiply(on_host::from_\1, c, a, b0, b1);",
    ),
    (
        "attention.cuh",
        r'asm\("mma\.sync[a-z0-9.]*\.tf32\.f32 [^;]*;[^;]*;',
        "on_host::multiply_single(c, a, b0, b1);",
    ),
    (
        "attention.cuh",
        r'asm\("cvt\.rn\.(b?f16)x2[^;]*;[^;]*;',
        r"both = on_host::to_\1(low) | uint32_t(on_host::to_\1(high)) << 16;",
    ),
    (
        "attention.cuh",
        r'asm\("cvt\.rn\.satfinite\.e4m3x2[^;]*;" : "=h"\((\w+)\) : "f"\((\w)\), "f"\((\w)\)\);',
        r"\1 = uint16_t(mucc::to_e4m3(\3) | mucc::to_e4m3(\2) << 8);",
    ),
    ("attention.cuh", r'asm\("ex2\.approx[^;]*;[^;]*;', "y = std::exp2(x);"),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.init[^;]*;[^;]*;',
        "on_host::start_barrier(barrier, arrivals);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.arrive\.shared[^;]*;[^;]*;',
        "on_host::expect(barrier, 0);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\("mbarrier\.arrive\.expect[^;]*;[^;]*;',
        "on_host::expect(barrier, bytes);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"\{\.reg \.pred done.*?\);',
        "on_host::await(barrier, parity);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"cp\.async\.bulk\.tensor[a-z0-9_.:]*\.im2col.*?: "memory"\);',
        "on_host::copy_positions(to, &map, barrier, channel, first, batch, tap);",
    ),
    (
        "warpgroup.cuh",
        r'asm volatile\(\s*"cp\.async\.bulk\.tensor.*?: "memory"\);',
        "on_host::copy_tile(to, &map, barrier, element, row, leading);",
    ),
    ("cluster.cuh", r'asm volatile\(\s*"barrier\.cluster.*?: "memory"\);', "on_host::sync_cluster();"),
    (
        "cluster.cuh",
        r'asm volatile\("mapa[^;]*;[^;]*;',
        "found = uint32_t(block) << 24 | at;",
    ),
    (
        "cluster.cuh",
        r'asm volatile\("ld\.shared::cluster[^;]*;[^;]*;',
        "for (int i = 0; i < kCount; ++i) x[i] = on_host::shared_of(at + 4 * i);",
    ),
    ("warpgroup.cuh", r'asm volatile\("prefetch[^;]*;[^;]*;', ""),
    ("warpgroup.cuh", r'asm volatile\("(setmaxnreg|wgmma\.fence|wgmma\.commit)[^;]*;[^;]*;', ""),
    ("warpgroup.cuh", r'asm volatile\("(fence\.mbarrier_init|" : "\+f)[^;]*;(" ::: "memory"\);)?', ";"),
    ("warpgroup.cuh", r'asm volatile\("wgmma\.wait_group[^;]*;[^;]*;', "on_host::align();"),
    ("warpgroup.cuh", r'asm volatile\("bar\.sync[^;]*;[^;]*;', "on_host::named_sync(barrier);"),
    ("warpgroup.cuh", r'asm volatile\("bar\.arrive[^;]*;[^;]*;', "on_host::named_arrive(barrier);"),
)
"""Instructions that only a GPU has, and what stands for them."""

_WGMMA = (
    r'asm volatile\("\{\.reg \.pred p;[^;]*;[^;]*?k16\.f32\.(b?f16)\.[^;]*p, 1, 1, (?:(\d), )?(\d);\}"'
    r'.*?"r"\(keeps\)\);'
)
"""A wgmma instruction: the dtype, and whether columns of the left and the right operand are contiguous."""

_WGMMA_TF32 = r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k8\.f32\.tf32\..*?"r"\(keeps\)\);'

_WGMMA_E4M3 = (
    r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k32\.f32\.e4m3\..*?"r"\(keeps\)\);'
)

_WGMMA_S8 = r'asm volatile\("\{\.reg \.pred p;[^;]*; "\s*"wgmma[a-z0-9._]*k32\.s32\.s8\..*?"r"\(keeps\)\);'

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
GUARD = 64
"""Elements before and behind each tensor, which nothing may write."""


# Contractions


def _terms(strides: Sequence[Product], unit: int | None, place: str, names: Sequence[str]) -> str:
    """The place of an element from its coordinates. Strides that the kernel's type fixes come from there."""
    terms = ["0"]
    for i, (stride, name) in enumerate(zip(strides, names, strict=True)):
        if i == unit:
            terms.append(name)
        elif not stride.is_zero:
            terms.append(f"{name} * {place}.stride[{i}]")
    return " + ".join(terms)


def _read(matrix: Matrix, place: str, names: str) -> str:
    element = VIEW_TYPES[matrix.memory.type.dtype]
    return f"mucc::widen({place}.as<{element}>()[{_terms(matrix.strides, matrix.unit, place, names)}])"


def _loads(gemm: Gemm) -> Iterator[str]:
    """What a body reads besides the accumulator, in its order."""
    loads = [op for op in ordered(gemm.op.nodes) if isinstance(op, LoadNode | InsideOp)]
    lean = isinstance(gemm.epilogue, LeanEpilogue)
    index = 0
    for op in loads:
        if isinstance(op, InsideOp):
            yield f"({_is_inside(index)} ? 1.0f : 0.0f)"
        elif not isinstance(op.source.type, TensorType):
            yield f"p.extra[{index}].value"
        elif isinstance(op, SrcFetchOp | AuxLoadOp):
            own = isinstance(op, SrcFetchOp) and not lean
            yield _read(gemm.problem.matrix(op.source), "p.c" if own else f"p.extra[{index}]", "ijl")
            index -= own
        else:
            axis = gemm.problem.axis(op)
            strides = (ZERO, ZERO, gemm.problem.vector(op.source, axis)[1])
            element = VIEW_TYPES[op.source.type.dtype]
            where = _terms(strides, axis, f"p.extra[{index}]", "ijl")
            yield f"mucc::widen(p.extra[{index}].as<{element}>()[{where}])"
        index += 1


def _is_inside(index: int) -> str:
    """Whether a column is in the range that an operand of the problem gives."""
    return f"on_host::in_range(p.extra[{index}], j)"


def _stores(gemm: Gemm, value: str) -> Iterator[str]:
    """Store an element: as D, or to the matrix in whose range of columns it is."""
    assert gemm.d is not None
    element = VIEW_TYPES[gemm.d.memory.type.dtype]
    if not gemm.op.ranges:
        to = _terms(gemm.d.strides, gemm.d.unit, "p.d", "ijl")
        yield f"mucc::narrow({value}, p.d.as<{element}>()[{to}]);"
    first = len(gemm.epilogue.operands) - 2 * len(gemm.op.ranges)
    for i, store in enumerate(gemm.op.ranges):
        matrix, place = gemm.problem.matrix(store.destination), f"p.extra[{first + 2 * i}]"
        numbers = first + 2 * i + 1
        to = _terms(matrix.strides, matrix.unit, place, ["i", f"(j - p.extra[{numbers}].stride[0])", "l"])
        yield f"if ({_is_inside(numbers)}) mucc::narrow({value}, {place}.as<{element}>()[{to}]);"


def _checks(gemm: Gemm) -> Iterator[str]:
    """What the kernel asks of the matrices that it maps."""
    mainloop = gemm.op.mainloop
    if mainloop is None or mainloop.data is Mainloop.MULTISTAGE:
        return
    named = {"a": gemm.a, "b": gemm.b, "c": gemm.c, "d": gemm.d}
    if mainloop.data is Mainloop.CPASYNC:
        del named["a"]
    for name, matrix in named.items():
        if matrix is not None:
            size = dtype_bits(matrix.memory.type.element_type) // 8
            given = f"p.{name}, {matrix.unit}, {size}, {'false' if matrix.strides[2].is_zero else 'true'}"
            yield f'  if (!on_host::maps({given})) return "TMA cannot map {name}";'
    first = len(gemm.epilogue.operands) - 2 * len(gemm.op.ranges)
    for i, store in enumerate(gemm.op.ranges):
        matrix = gemm.problem.matrix(store.destination)
        size = dtype_bits(matrix.memory.type.element_type) // 8
        given = f"p.extra[{first + 2 * i}], 1, {size}, {'false' if matrix.strides[2].is_zero else 'true'}"
        yield f'  if (!on_host::maps({given})) return "TMA cannot map a range of columns";'


def _contraction(gemm: Gemm) -> str:
    """The stand-in of one contraction."""
    if gemm.op.group_columns:
        return _of_groups(gemm)
    assert gemm.d is not None
    (body,) = gemm.bodies or [None]
    loads = list(_loads(gemm))
    given = ", ".join(["float(sum)", *loads])
    value = f"{body.name}::apply({given})" if body else "float(sum)"
    return "\n".join(
        [
            *([body.text] if body else []),
            "char const* run(mucc::gemm::Problem const& p) {",
            *_checks(gemm),
            "  for (int64_t l = 0; l < p.batch; ++l)",
            "  for (int64_t i = 0; i < p.m; ++i)",
            "  for (int64_t j = 0; j < p.n; ++j) {",
            "    double sum = 0;",
            f"    for (int64_t k = 0; k < p.k; ++k) sum += double({_read(gemm.a, 'p.a', 'ikl')}) * "
            f"double({_read(gemm.b, 'p.b', 'jkl')});",
            *(f"    {line}" for line in _stores(gemm, value)),
            "  }",
            "  return nullptr;",
            "}",
        ]
    )


def _of_groups(gemm: Gemm) -> str:
    """The same of one whose epilogue reduces groups of columns: a row is computed step by step."""
    loads = list(_loads(gemm))
    nodes = ordered(gemm.op.nodes)
    values = [op.result for op in nodes if isinstance(op, AccFetchOp)]
    values += [op.results[0] for op in nodes if isinstance(op, LoadNode)]
    product = f"double({_read(gemm.a, 'p.a', 'ikl')}) * double({_read(gemm.b, 'p.b', 'jkl')})"
    lines = [
        "double sum = 0;",
        f"for (int64_t k = 0; k < p.k; ++k) sum += {product};",
        "v[0][j] = float(sum);",
    ]
    lines = ["for (int64_t j = 0; j < p.n; ++j) {", *lines]
    lines += [f"v[{i}][j] = {load};" for i, load in enumerate(loads, 1)] + ["}"]
    bodies = iter(gemm.bodies)
    for op in nodes:
        to = f"v[{len(values)}]"
        if isinstance(op, ComputeOp):
            given = ", ".join(f"v[{values.index(v)}][j]" for v in gemm.epilogue.inputs(op))
            lines.append(f"for (int64_t j = 0; j < p.n; ++j) {to}[j] = {next(bodies).name}::apply({given});")
        elif isinstance(op, GroupReduceOp):
            kind, width, of = REDUCTIONS[op.kind.data], op.width.value.data, f"v[{values.index(op.value)}]"
            lines += [
                f"for (int64_t j = 0; j < p.n; j += {width}) {{",
                f"float total = {kind}::identity;",
                f"for (int c = 0; c < {width}; ++c)",
                f"total = {kind}::combine(total, {kind}::first({of}[j + c]));",
                f"for (int c = 0; c < {width}; ++c) {to}[j + c] = total;",
                "}",
            ]
        else:
            continue
        values.append(op.result)
    place = len(loads)
    for op in gemm.op.stores:
        value = f"v[{values.index(op.value)}][j]"
        if isinstance(op, GroupStoreOp):
            width, extra = op.width.value.data, f"p.extra[{place}]"
            to = f"{extra}.as<float>()[i * {extra}.stride[0] + j / {width} + l * {extra}.stride[2]]"
            lines.append(f"for (int64_t j = 0; j < p.n; j += {width}) {to} = {value};")
            place += 1
        else:
            lines += ["for (int64_t j = 0; j < p.n; ++j) {", *_stores(gemm, value), "}"]
    return "\n".join(
        [
            *(body.text for body in gemm.bodies),
            "char const* run(mucc::gemm::Problem const& p) {",
            *_checks(gemm),
            f"  std::vector<std::vector<float>> v({len(values)}, std::vector<float>(p.n));",
            "  for (int64_t l = 0; l < p.batch; ++l)",
            "  for (int64_t i = 0; i < p.m; ++i) {",
            *(f"    {line}" for line in lines),
            "  }",
            "  return nullptr;",
            "}",
        ]
    )


# Building

FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")
"""Libraries of one process would share inline variables and static ones of templates, by their names, were
these not hidden: entries of other programs, and shared memory of other sizes."""

PRELUDE = '#pragma once\n#include "on_host.h"\n#include <mucc/view.cuh>\n'


@cache
def _headers(gxx: str) -> Path:
    """Return the folder that the compiler reads first: headers without instructions, and a precompiled one.

    It lies in `build`, named by its contents, so that all processes of a run share it, and later runs.
    """
    texts: dict[str, str] = {"prelude.h": PRELUDE}
    for name, pattern, text in _ON_HOST:
        path = f"mucc/{name}"
        source = texts.get(path) or Path(header_path(name)).read_text(encoding="utf-8")
        texts[path], count = re.subn(pattern, text, source, flags=re.DOTALL)
        assert count, (name, pattern)
    headers = compiled.contents(HERE, *map(Path, INCLUDES))
    key = repr((compiled.version(gxx), FLAGS, sorted(texts.items()), headers))
    shared = compiled.KEPT / "headers"
    folder = shared / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.exists():
        shared.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=shared))
        for name, text in texts.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_text(text, encoding="utf-8")
        includes = [f"-I{path}" for path in (made, HERE, *INCLUDES)]
        whole = [gxx, *FLAGS, *includes, "-x", "c++-header", str(made / "prelude.h")]
        built = subprocess.run(whole, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr[:4000]
        try:
            made.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(made)
    os.utime(folder)
    for other in shared.iterdir():
        if time.time() - other.stat().st_mtime > compiled.KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _library(gxx: str, text: str, to: Path) -> None:
    """Compile a source to a library, or copy what an earlier run compiled of the same text and headers."""
    headers = _headers(gxx)

    def build(made: Path) -> None:
        source = to.with_suffix(".cpp")
        source.write_text(text, encoding="utf-8")
        includes = [f"-I{path}" for path in (headers, HERE, *INCLUDES)]
        command = [gxx, *FLAGS, "-shared", *includes, str(source), "-o", str(made)]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        assert built.returncode == 0, built.stderr[:4000]

    compiled.library((headers.name, text), to, build)


def _text(compilation: Compilation) -> str:
    parts = compilation.parts()
    light = "".join(image.source for image in parts.images if image.skeleton is None)
    headers = sorted(set(re.findall(r"^#include <mucc/.*>$", light, re.MULTILINE)))
    lines = ['#include "prelude.h"', *headers]
    registered: list[str] = []
    for i, image in enumerate(parts.images):
        lines.append(f'extern "C" unsigned char const {image.symbol}[] = {{0}};')
        if image.skeleton is not None:
            continue
        # Kernels of 64-bit indices are for tensors that no test has.
        source = re.sub(
            r"#include .*\n|extern \"C\" __global__[^{]*_wide\([^{]*\{[^}]*\}\n", "", image.source
        )
        source = re.sub(
            _WGMMA,
            r"on_host::wgmma(on_host::from_\1, sum, a, b, keeps, \3, \g<2>+0);",
            source,
            flags=re.DOTALL,
        )
        source = re.sub(_WGMMA_TF32, "on_host::wgmma_tf32(sum, a, b, keeps);", source, flags=re.DOTALL)
        source = re.sub(_WGMMA_E4M3, "on_host::wgmma_e4m3(sum, a, b, keeps);", source, flags=re.DOTALL)
        source = re.sub(_WGMMA_S8, "on_host::wgmma_s8(sum, a, b, keeps);", source, flags=re.DOTALL)
        lines += [f"namespace image_{i} {{", source, "}"]
        for name in re.findall(r"__launch_bounds__\(.*\)\s+(\w+)\(", source):
            call = f"[](void** p) {{ on_host::call(image_{i}::{name}, p); }}"
            registered.append(f'on_host::entries()["{name}"] = {call};')
    for skeleton in parts.skeletons:
        declared = f"mucc::gemm::Skeleton const {skeleton.symbol}"
        lines += [
            f'extern "C" {declared};',
            f"{declared}{{on_host::contract, on_host::no_scratch, nullptr, 0}};",
        ]
    for program in (op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp)):
        places = Places(program, {d: d for d in program.dim_names})
        for i, op in enumerate(k for k in program.kernels if isinstance(k, GemmOp)):
            space = f"contraction_{program.sym_name.data}_{i}"
            lines += [f"namespace {space} {{", _contraction(gemm_of(op, places, canonical=True)), "}"]
            name, stage = program.sym_name.data, op.stage.data
            table = f'contractions()["{name}/{stage}"]'
            if program.entry_of is not None:
                table = f"described()[mu::{name}::{stage}::describe]"
            registered.append(f"on_host::{table} = {space}::run;")
    registration = ["static int const registered = [] {", *registered, "return 0; }();"]
    return "\n".join([*lines, parts.program, *registration]) + "\n"


@dataclass(frozen=True)
class Program:
    """The kernels of a source as a library for the host."""

    compilation: Compilation
    library: ct.CDLL
    kernels: tuple[KernelInfo, ...]

    @staticmethod
    def of_text(text: str, folder: Path) -> Program:
        """Compile and build the kernels of a source for the default target."""
        return Program.of(compile_text(Source("k.mcu", text)), folder)

    @staticmethod
    def of(compilation: Compilation, folder: Path) -> Program:
        """Build it, or skip the test where there is no g++."""
        if not (gxx := shutil.which("g++")):
            pytest.skip("needs g++")
        _library(gxx, _text(compilation), folder / "k.so")
        library = ct.CDLL(str(folder / "k.so"))
        library.mucc_last_error.restype = ct.c_char_p
        return Program(compilation, library, Manifest.parse(compilation.manifest).kernels)


def program_of(text: str) -> Any:
    """Return a fixture with the kernels of a source, which are built once for a module of tests."""

    @pytest.fixture(scope="module")
    def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
        return Program.of_text(text, tmp_path_factory.mktemp("host"))

    return program


# Tensors


def _table(dtype: str) -> np.ndarray[Any, Any]:
    """The value of every 8-bit float."""
    mantissa, bias = (3, 7) if dtype == "e4m3" else (2, 15)
    bits = np.arange(256)
    exponent, fraction = bits >> mantissa & (255 >> mantissa + 1), bits & ((1 << mantissa) - 1)
    size = np.where(
        exponent == 0,
        np.ldexp(fraction * 1.0, 1 - bias - mantissa),
        np.ldexp(fraction + (1 << mantissa) * 1.0, exponent - bias - mantissa),
    )
    return np.where(bits >> 7, -size, size)


def encode(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Small integers as the bits of a dtype."""
    match dtype:
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        case "e4m3" | "e5m2":
            table = _table(dtype)
            return np.array([int(np.nonzero(table == v)[0][0]) for v in values.ravel()], np.uint8).reshape(
                values.shape
            )
        case _:
            kind = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "u8": np.uint8, "s32": np.int32}[
                dtype
            ]
            return values.astype(kind).view(_BITS[np.dtype(kind).itemsize])


def decode(bits: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The numbers that bits of a dtype are."""
    bits = np.ascontiguousarray(bits)
    match dtype:
        case "bf16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case "e4m3" | "e5m2":
            return _table(dtype)[bits]
        case _:
            kind = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "u8": np.uint8, "s32": np.int32}[
                dtype
            ]
            return bits.view(kind).astype(np.float64)


def rounded(values: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Round results that the interpreter leaves in float64 to a dtype of floats, to nearest even."""
    wide = np.asarray(values, np.float64)
    match dtype:
        case "f32":
            return wide.astype(np.float32).astype(np.float64)
        case "f16":
            return wide.astype(np.float16).astype(np.float64)
        case "bf16":
            bits = np.atleast_1d(wide.astype(np.float32)).view(np.uint32)
            even = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
            near = np.where(np.isnan(wide), wide, even.view(np.float32).reshape(wide.shape))
            return near.astype(np.float64)
        case _:
            return wide


@dataclass
class Place:
    """A tensor in memory of its own, between guards."""

    memory: np.ndarray[Any, Any]
    bits: np.ndarray[Any, Any]
    strides: tuple[int, ...]
    start: int

    @staticmethod
    def of(arg: Arg, shape: tuple[int, ...], rng: np.random.Generator, align: int = 1) -> Place:
        """As its layout says; axes of extent 1 and free strides are anything that the kernel takes.

        Data and free strides are multiples of `align` bytes.
        """
        item = DTYPES[arg.dtype][1] // 8
        unit = max(1, max(arg.align, align) // item)
        strides = _strides(arg.layout, shape, unit, rng)
        real = [s if e > 1 else 0 for s, e in zip(strides, shape, strict=True)]
        held = sum((e - 1) * s for e, s in zip(shape, real, strict=True)) + 1
        memory = np.full(held + 2 * GUARD + 32, -1, np.int64).astype(_BITS[item])
        begin = GUARD + -(memory.ctypes.data // item + GUARD) % max(1, 16 // item)
        begin += unit * int(rng.integers(0, 2)) % 16
        bits = as_strided(memory[begin:], shape, [s * item for s in real])
        return Place(memory, bits, strides, begin)

    def tensor(self, dtype: str) -> Tensor:
        """As the C door takes it."""
        n = len(self.strides)
        where = self.memory.ctypes.data + self.start * self.memory.itemsize
        shape, strides = (ct.c_int64 * n)(*self.bits.shape), (ct.c_int64 * n)(*self.strides)
        return Tensor(where, Device(CUDA, 0), n, DType(*DTYPES[dtype], 1), shape, strides, 0)

    def strays(self) -> bool:
        """Whether anything but the tensor was written."""
        others = self.memory.copy()
        as_strided(others[self.start :], self.bits.shape, self.bits.strides)[...] = ~self.memory.dtype.type(0)
        return bool((others != ~self.memory.dtype.type(0)).any())


def _strides(layout: Any, shape: tuple[int, ...], unit: int, rng: np.random.Generator) -> tuple[int, ...]:
    rank = len(shape)
    order = list(range(rank))
    if isinstance(layout, str):
        if layout == "col_major":
            order[-2], order[-1] = order[-1], order[-2]
        strides, span = [0] * rank, 1
        for axis in reversed(order):
            strides[axis] = span
            span *= shape[axis]
    else:
        strides, span = [s or 0 for s in layout], 1
        for axis in sorted(order, key=lambda a: layout[a] is None):
            if layout[axis] is None:
                strides[axis] = -(-span // unit) * unit + unit * int(rng.integers(0, 3))
            span = max(span, strides[axis] * shape[axis])
    return tuple(
        int(rng.choice((0, 1, 3, 1000))) if e == 1 else s for s, e in zip(strides, shape, strict=True)
    )


def run(
    program: Program,
    info: KernelInfo,
    dims: dict[str, int],
    seed: int,
    floats: Sequence[float] = (),
    within: float = 0.0,
    align: int = 1,
) -> None:
    """Run a kernel and compare with the interpreter: exactly, or `within` times the size of a number.

    Its inputs are small integers, and floats are drawn from `floats` where these are given. Tensors begin at
    multiples of `align` bytes.
    """
    rng = np.random.default_rng(seed)
    places: list[Place | None] = []
    given: list[Tensor] = []
    inputs: list[Any] = []
    numbers: list[Any] = []
    for arg in (*info.inputs, *info.outputs):
        if arg.role == "scalar":
            numbers.append(number := ct.c_float(2.0))
            given.append(Tensor(ct.addressof(number), Device(CPU, 0), 0, DType(2, 32, 1), None, None, 0))
            inputs.append(2.0)
            places.append(None)
            continue
        shape = arg.extents(dims)
        place = Place.of(arg, shape, rng, align)
        if arg in info.inputs:
            if arg.indices:
                values = np.array(draw_indices(arg, dims, random.Random(seed))).reshape(shape)
            elif floats and arg.dtype in ("bf16", "f16", "f32"):
                values = rng.choice(np.array(floats), shape)
            else:
                values = rng.integers(0 if arg.dtype == "u8" else -2, 3, shape)
            place.bits[...] = encode(values, arg.dtype)
            inputs.append(values.astype(np.float64))
        places.append(place)
        given.append(place.tensor(arg.dtype))
    call = getattr(program.library, f"mucc_{info.name}")
    call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
    failed = call((Tensor * len(given))(*given), len(given), None, 0, None)
    assert not failed, program.library.mucc_last_error().decode()
    expected = program.compilation.interpret(info.name, inputs)
    for arg, place, want in zip(info.outputs, places[len(inputs) :], expected, strict=True):
        assert place is not None
        got, want = decode(place.bits, arg.dtype), rounded(want, arg.dtype)
        np.testing.assert_allclose(got, want, within, within, err_msg=f"{info.name} {arg.name} {dims}")
        assert not place.strays(), f"{info.name} writes beyond {arg.name} {dims}"
