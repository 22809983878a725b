"""Build whole programs for the host: entries and light kernels as emitted, contractions as stand-ins.

Headers in `include` run each thread of a block as a coroutine, and emulate instructions of a GPU: products of
warps and warpgroups, barriers in shared memory, and copies by tensor maps.
"""

from __future__ import annotations

import contextlib
import ctypes as ct
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.host import compiled
from bench.host.contractions import NotOnHost, stand_in
from bench.host.instructions import HEADERS, without_instructions, without_products
from mucc.codegen.memory import Places
from mucc.compiler.compilation import Compilation
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.files.package import INCLUDES, header_path
from mucc.kernels.gemm.emission.families import gemm_of
from mucc.kernels.gemm.op import GemmOp
from mucc.library.signature import KernelInfo, Manifest

INCLUDE = Path(__file__).parent / "include"

FLAGS = ("-std=c++17", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off")
"""Flags of g++. Symbols are hidden, because libraries of one process would otherwise share inline variables
and static variables of templates: entries of other programs, and shared memory of other sizes."""

CHECKED = ("-DON_HOST_CHECKS", "-g1", "-fsanitize=thread,bounds,alignment")
"""Further flags of libraries that check each access of a device thread (on_host_checks.h)."""

PRELUDE = '#pragma once\n#include "on_host.h"\n#include <mucc/view.cuh>\n'


class HostError(Exception):
    """An error of g++, or its absence, with what it printed."""


@cache
def _headers(gxx: str, flags: tuple[str, ...]) -> Path:
    """Return the folder that the compiler reads first: headers without instructions, and a precompiled one.

    It lies in `build`, named by its contents, so that all processes of a run share it, and later runs.
    """
    texts: dict[str, str] = {"prelude.h": PRELUDE}
    for name in dict.fromkeys(name for name, _pattern, _text in HEADERS):
        source = Path(header_path(name)).read_text(encoding="utf-8")
        texts[f"mucc/{name}"] = without_instructions(name, source)
    headers = compiled.contents(INCLUDE, *map(Path, INCLUDES))
    key = repr((compiled.version(gxx), flags, sorted(texts.items()), headers))
    shared = compiled.KEPT / "headers"
    folder = shared / hashlib.sha256(key.encode()).hexdigest()[:32]
    if not folder.exists():
        shared.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=shared))
        try:
            for name, text in texts.items():
                (made / name).parent.mkdir(exist_ok=True)
                (made / name).write_text(text, encoding="utf-8")
            _compile([gxx, *flags, *_included(made), "-x", "c++-header", str(made / "prelude.h")])
            with contextlib.suppress(OSError):  # another process was faster
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    os.utime(folder)
    for other in shared.iterdir():
        if time.time() - other.stat().st_mtime > compiled.KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _included(headers: Path) -> list[str]:
    return [f"-I{path}" for path in (headers, INCLUDE, *INCLUDES)]


@cache
def _linker() -> tuple[str, ...]:
    """Choose gold where there is one: it takes a third of what g++'s usual linker takes."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") else ()


def _compile(command: list[str]) -> None:
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise HostError(built.stderr[:4000])


def library(gxx: str, text: str, to: Path, *more: str) -> None:
    """Compile a source to a library, or copy what an earlier run compiled of the same text and headers.

    Raises HostError where g++ refuses it.
    """
    flags = (*FLAGS, *more)
    headers = _headers(gxx, flags)

    def build(made: Path) -> None:
        source, part = to.with_suffix(".cpp"), to.with_suffix(".o")
        source.write_text(text, encoding="utf-8")
        _compile([gxx, *flags, *_included(headers), "-c", str(source), "-o", str(part)])
        # Without the flags: the functions that g++ calls for checks are in the program.
        _compile([gxx, "-shared", "-Wl,-z,defs", *_linker(), str(part), "-o", str(made)])

    reached = compiled.included(text, (headers, INCLUDE, *map(Path, INCLUDES)))
    compiled.library((compiled.version(gxx), flags, text), to, build, reached)


def included(source: str) -> list[str]:
    """Return the lines by which C++ includes headers of the package."""
    return sorted(set(re.findall(r"^#include <mucc/.*>$", source, re.MULTILINE)))


def text_of(compilation: Compilation) -> str:
    """Emit the C++ of a program for the host. Raises NotOnHost where a kernel has no stand-in."""
    parts = compilation.parts()
    light = "".join(image.source for image in parts.images if image.skeleton is None)
    lines = ['#include "prelude.h"', *included(light)]
    registered: list[str] = []
    for i, image in enumerate(parts.images):
        lines += [f'extern "C" unsigned char const {symbol}[] = {{0}};' for symbol in image.symbols]
        if image.skeleton is not None:
            continue
        if "<mucc/skinny.cuh>" in image.source:
            raise NotOnHost("products of few rows by mma.sync have no stand-in")
        # Kernels of 64-bit indices are for tensors that no test has.
        source = re.sub(
            r"#include .*\n|extern \"C\" __global__[^{]*_wide\([^{]*\{[^}]*\}\n", "", image.source
        )
        source = without_products(source)
        lines += [f"namespace image_{i} {{", source, "}"]
        for name in re.findall(r"__launch_bounds__\(.*\)\s+(\w+)\(", source):
            call = f"[](void** p) {{ on_host::call(image_{i}::{name}, p); }}"
            ordered = str("<mucc/scan.cuh>" in image.source).lower()
            registered.append(f'on_host::entries.push_back({{"{name}", {call}, {ordered}}});')
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
            lines += [f"namespace {space} {{", stand_in(gemm_of(op, places, canonical=True)), "}"]
            name, stage = program.sym_name.data, op.stage.data
            describe = "nullptr" if program.entry_of is None else f"mu::{name}::{stage}::describe"
            known = f'"{name}", "{stage}", {describe}, {space}::run'
            registered.append(f"on_host::contractions.push_back({{{known}}});")
    registration = ["static int const registered = [] {", *registered, "return 0; }();"]
    return "\n".join([*lines, parts.program, *registration]) + "\n"


@dataclass(frozen=True)
class HostProgram:
    """The kernels of a source as a library for the host."""

    compilation: Compilation
    library: ct.CDLL
    kernels: tuple[KernelInfo, ...]
    path: Path

    @classmethod
    def built(cls, compilation: Compilation, folder: Path, *flags: str) -> HostProgram:
        """Build the library in a folder. Raises HostError without g++, or if g++ rejects the C++."""
        if not (gxx := shutil.which("g++")):
            raise HostError("there is no g++")
        path = folder / "k.so"
        library(gxx, text_of(compilation), path, *flags)
        loaded = ct.CDLL(str(path))
        loaded.mucc_last_error.restype = ct.c_char_p
        return cls(compilation, loaded, Manifest.parse(compilation.manifest).kernels, path)
