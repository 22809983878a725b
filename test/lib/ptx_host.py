"""Run the PTX of light kernels on the host: compiled in one piece, and spliced from a skeleton and bodies.

The program's host code launches the kernels; bench/host/ptx runs each of their threads. Both forms take the
same inputs, and leave the same bits, but for sums of a body's results: in one piece the last product of the
body is fused with the sum.
"""

from __future__ import annotations

import ctypes as ct
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import on_host
import pytest

from bench.host.abi import CPU, Device, DType, Tensor
from bench.host.ptx.machine import Machine, host_library, ptx_of
from mucc.build.toolchain import nvrtc
from mucc.build.toolchain.splice import read_bodies, splice
from mucc.codegen.kernel_code import ENTRY
from mucc.compiler.compilation import Compilation
from mucc.compiler.driver import compile_text
from mucc.compiler.emit import Image
from mucc.diagnostics import Source
from mucc.library.signature import KernelInfo, Manifest

SHARED = 228 << 10
"""Bytes of shared memory of a multiprocessor of an H100."""

SEEDS = (0, 1)
"""Orders of threads and blocks: by their numbers, and drawn."""


def forms(image: Image) -> tuple[str, str | None]:
    """Compile an image to PTX in one piece and spliced; None where it has no skeleton."""
    one = ptx_of(image.source, has_kernels=True)
    if (divided := image.divided) is None:
        return one, None
    bodies = read_bodies(ptx_of(divided.bodies))
    return one, splice(ptx_of(divided.skeleton, has_kernels=True).replace(ENTRY, image.entry), bodies)


@dataclass(frozen=True)
class Spliced:
    """A program whose kernels run as PTX: `one` and `spliced` are the modules in both forms."""

    compilation: Compilation
    library: ct.CDLL
    kernels: tuple[KernelInfo, ...]
    machine: Machine
    one: tuple[str, ...]
    spliced: tuple[str, ...]

    @staticmethod
    def of_text(text: str, folder: Path) -> Spliced:
        """Compile a program for the default target; all its kernels are light ones."""
        return Spliced.of(compile_text(Source("k.mcu", text)), folder)

    @staticmethod
    def of(compilation: Compilation, folder: Path) -> Spliced:
        """Build the host code and the PTX of all kernels in both forms."""
        if reason := nvrtc.why_unusable("13.0"):
            pytest.skip(reason)
        if not shutil.which("g++"):
            pytest.skip("needs g++")
        machine = Machine(folder)
        parts = compilation.parts()
        loaded = host_library(parts, folder)
        pairs = [forms(image) for image in parts.images if image.skeleton is None]
        loaded.on_host_runner(machine.library.ptx_launch)
        loaded.on_host_sm_shared(SHARED)
        kernels = Manifest.parse(compilation.manifest).kernels
        one, other = tuple(a for a, _ in pairs), tuple(b or a for a, b in pairs)
        machine.library.ptx_clear()
        for form, modules in enumerate((one, other)):
            for module in modules:
                machine.load(form, module)
        return Spliced(compilation, loaded, kernels, machine, one, other)

    def kernel_names(self) -> list[str]:
        """Return the names of all kernels."""
        return re.findall(r"\.entry\s+([\w$]+)", "".join(self.one))

    @property
    def has_spliced(self) -> bool:
        """Whether any image has a skeleton."""
        return self.one != self.spliced


@dataclass
class Run:
    """Arguments of a call: inputs as numbers, and the tensors."""

    info: KernelInfo
    inputs: list[Any]
    places: list[on_host.Place | None]
    given: list[Tensor]
    kept: list[Any]

    @staticmethod
    def drawn(info: KernelInfo, dims: dict[str, int], seed: int, align: int = 1) -> Run:
        """Draw inputs: floats of a normal distribution, small integers, and indices that fit."""
        rng = np.random.default_rng(seed)
        run = Run(info, [], [], [], [])
        for arg in (*info.inputs, *info.outputs):
            if arg.role == "scalar":
                number = ct.c_float(1.25)
                run.kept.append(number)
                run.given.append(
                    Tensor(ct.addressof(number), Device(CPU, 0), 0, DType(2, 32, 1), None, None, 0)
                )
                run.inputs.append(1.25)
                run.places.append(None)
                continue
            place = on_host.Place.of(arg, arg.extents(dims), rng, align)
            if arg in info.inputs:
                bits = _bits(arg, dims, place.bits.shape, seed, rng)
                place.bits[...] = bits
                run.inputs.append(on_host.decode(bits, arg.dtype))
            run.places.append(place)
            run.given.append(place.tensor(arg.dtype))
        return run

    def call(self, program: Spliced) -> list[np.ndarray[Any, Any]]:
        """Call the kernel; returns the bits of its outputs, which were overwritten with ones before."""
        outputs = self.places[len(self.info.inputs) :]
        for place in outputs:
            assert place is not None
            place.memory[...] = ~place.memory.dtype.type(0)
        call = getattr(program.library, f"mucc_{self.info.name}")
        call.argtypes = [ct.c_void_p, ct.c_int, ct.c_void_p, ct.c_size_t, ct.c_void_p]
        failed = call((Tensor * len(self.given))(*self.given), len(self.given), None, 0, None)
        assert not failed, program.library.mucc_last_error().decode()
        for arg, place in zip(self.info.outputs, outputs, strict=True):
            assert place is not None and not place.strays(), f"{self.info.name} writes beyond {arg.name}"
        return [place.bits.copy() for place in outputs if place is not None]


def _bits(
    arg: Any, dims: dict[str, int], shape: tuple[int, ...], seed: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    import random

    from mucc.measure.indices import draw_indices

    if arg.indices:
        values = np.array(draw_indices(arg, dims, random.Random(seed))).reshape(shape)
    elif arg.dtype in ("bf16", "f16", "f32"):
        values = on_host.rounded(rng.normal(size=shape), arg.dtype).reshape(shape)
    else:
        values = rng.integers(0 if arg.dtype == "u8" else -2, 3, shape)
    return on_host.encode(values, arg.dtype)


@dataclass(frozen=True)
class Difference:
    """How far apart results are, in the size of the larger one."""

    what: str
    spliced: float
    """Between the forms; 0 where all bits are the same."""
    meaning: float
    """Between the spliced form and the float64 interpreter."""


def compare(
    program: Spliced, info: KernelInfo, dims: dict[str, int], seed: int, align: int = 1
) -> list[Difference]:
    """Run both forms in several orders of threads; each form leaves the same bits in all of them."""
    run = Run.drawn(info, dims, seed, align)
    results: list[list[np.ndarray[Any, Any]]] = []
    for form in range(2):
        program.machine.library.ptx_use(form)
        found: list[list[np.ndarray[Any, Any]]] = []
        for order in SEEDS:
            program.machine.library.ptx_seed(order)
            found.append(run.call(program))
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                assert np.array_equal(a, b), f"{info.name} {dims} depends on the order of threads"
        results.append(found[0])
    expected = program.compilation.interpret(info.name, run.inputs)
    differences: list[Difference] = []
    for arg, one, spliced, want in zip(info.outputs, *results, expected, strict=True):
        a, b = on_host.decode(one, arg.dtype), on_host.decode(spliced, arg.dtype)
        apart = 0.0 if np.array_equal(one, spliced) else max(_apart(a, b), 1e-30)
        differences.append(
            Difference(f"{info.name} {arg.name} {dims}", apart, _apart(b, on_host.rounded(want, arg.dtype)))
        )
    return differences


def _apart(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """Return the largest distance in units of 1 + the size; infinity where only one is not a number."""
    a, b = np.asarray(a, np.float64).reshape(-1), np.asarray(b, np.float64).reshape(-1)
    if not a.size:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(a - b) / (1 + np.minimum(np.abs(a), np.abs(b))))
    return float(np.nanmax(np.where(np.isnan(distance), np.inf, distance)))
