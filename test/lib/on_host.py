"""Programs as the C++ of their kernels on the host (bench/host), held against the interpreter."""

from __future__ import annotations

import ctypes as ct
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from bench.host.abi import CPU, CUDA, DTYPES, Device, DType, Tensor
from bench.host.program import CHECKED, HostProgram
from mucc.compiler.compilation import Compilation
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.library.signature import Arg, KernelInfo
from mucc.measure.indices import draw_indices

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
CHECKS = ("-O1", *CHECKED) if os.environ.get("MUCC_HOST_CHECKS") else ()
"""Flags of all libraries where the environment asks for checks of memory and races, and for other orders of
threads: ten times as slow."""

GUARD, MOST_GUARD = 64, 1 << 16
"""Elements before and behind each tensor, which nothing may write: as many as it has, within these."""


class Program(HostProgram):
    """The kernels of a source as a library for the host."""

    @staticmethod
    def of_text(text: str, folder: Path, *flags: str) -> HostProgram:
        """Compile and build the kernels of a source for the default target."""
        return Program.of(compile_text(Source("k.mcu", text)), folder, *flags)

    @staticmethod
    def of(compilation: Compilation, folder: Path, *flags: str) -> HostProgram:
        """Build it, or skip the test where there is no g++."""
        if not shutil.which("g++"):
            pytest.skip("needs g++")
        return Program.built(compilation, folder, *(flags or CHECKS))


def program_of(text: str) -> Any:
    """Return a fixture with the kernels of a source, which are built once for a module of tests."""

    @pytest.fixture(scope="module")
    def program(tmp_path_factory: pytest.TempPathFactory) -> HostProgram:
        return Program.of_text(text, tmp_path_factory.mktemp("host"))

    return program


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
        guard = max(GUARD, min(held // 16 * 16, MOST_GUARD))
        memory = np.full(held + 2 * guard + 32, -1, np.int64).astype(_BITS[item])
        begin = guard + -(memory.ctypes.data // item + guard) % max(1, 16 // item)
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
    expected = program.compilation.interpret(info.name, inputs)
    for order in (0, 1, 2) if CHECKS else (0,):
        _call(program, lambda: call((Tensor * len(given))(*given), len(given), None, 0, None), order)
        for arg, place, want in zip(info.outputs, places[len(inputs) :], expected, strict=True):
            assert place is not None
            got, want = decode(place.bits, arg.dtype), rounded(want, arg.dtype)
            np.testing.assert_allclose(got, want, within, within, err_msg=f"{info.name} {arg.name} {dims}")
            assert not place.strays(), f"{info.name} writes beyond {arg.name} {dims}"


def _call(program: HostProgram, call: Callable[[], int], order: int) -> None:
    """Call a kernel in an order of threads, and ask what checks have found."""
    if CHECKS:
        program.library.on_host_seed.argtypes = [ct.c_uint64]
        program.library.on_host_reports.restype = ct.c_char_p
        program.library.on_host_seed(order)
    failed = call()
    assert not failed, program.library.mucc_last_error().decode()
    found = program.library.on_host_reports().decode() if CHECKS else ""
    assert not found, found
