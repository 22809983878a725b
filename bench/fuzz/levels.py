"""Check that passes keep what a program computes: it is interpreted after each, without roundings."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from bench.fuzz.checks import Failure
from mucc import frontend
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics.core import Source
from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.kernels.interpreter import interpret_program
from mucc.library.signature import Arg, KernelInfo, Manifest
from mucc.library.sparse import densify, sparsify
from mucc.measure.indices import draw_indices
from mucc.passes.levels import contents_of
from mucc.passes.pipeline import pipeline

FLOATS = ("f32", "bf16", "f16", "e4m3", "e5m2")

UNREADABLE = ("convert-to-cutlass",)
"""Passes behind which arithmetic on numbers of elements is no part of a kernel yet."""

SPREAD = {"s4": (-8, 7), "u4": (0, 15), "s8": (-5, 5), "u8": (0, 9), "s32": (-9, 20)}
"""Ranges of random integer inputs, both ends included, by dtype."""


class UndrawableError(Exception):
    """Index arguments have to name more rows than there are, each once."""


@contextlib.contextmanager
def without_rounding() -> Generator[None]:
    """Store floats of any dtype in float64: what differs then is another meaning."""
    from mucc.kernels.map import meaning

    rounded, tf32 = NumpyArrays.round_to, meaning.to_tf32

    def round_to(self: NumpyArrays, value: Any, dtype: str) -> Any:
        return self.float64(value) if dtype in FLOATS else rounded(self, value, dtype)

    def exact(_arrays: Any, value: Any) -> Any:
        return value

    NumpyArrays.round_to = round_to
    meaning.to_tf32 = exact
    try:
        yield
    finally:
        NumpyArrays.round_to, meaning.to_tf32 = rounded, tf32


def inputs_of(info: KernelInfo, dims: Mapping[str, int], seed: str) -> list[Any]:
    """Draw arguments of a kernel. Floats are those of bf16, so that no form of memory changes them."""
    rng, numbers = random.Random(seed), np.random.default_rng(random.Random(seed).randrange(2**32))
    return [_input(arg, dims, rng, numbers) for arg in info.inputs]


def _input(arg: Arg, dims: Mapping[str, int], rng: random.Random, numbers: np.random.Generator) -> Any:
    shape = arg.extents(dims)
    if arg.role == "scalar":
        return float(numbers.integers(1, 5)) / 4
    if arg.indices:
        try:
            rows = draw_indices(arg, dims, rng)
        except ValueError as error:
            raise UndrawableError(str(error)) from error
        return np.array(rows, np.int64).reshape(shape)
    if arg.dtype in SPREAD:
        low, high = SPREAD[arg.dtype]
        return numbers.integers(low, high + 1, shape).astype(np.float64)
    values = NumpyArrays().round_to(numbers.standard_normal(shape), "bf16")
    if arg.layout == "sparse":
        import torch

        kept = sparsify(torch.tensor(values, dtype=torch.bfloat16), prune=True)
        return densify(kept).to(torch.float64).numpy()
    return values


def computed(module: ModuleOp, inputs: Sequence[Any]) -> list[Any]:
    """Interpret a module's one kernel, at whichever level it is."""
    from mucc.dialects.mu.roundings import ExactFunctions

    with np.errstate(all="ignore"):
        match module.body.block.first_op:
            case KernelOp() as kernel:
                return interpret_kernel(kernel, list(inputs), ExactFunctions)
            case ProgramOp() as program:
                return interpret_program(program, list(inputs))
            case op:
                raise AssertionError(op)


def compared(got: Sequence[Any], want: Sequence[Any], where: str, within: float = 1e-9) -> None:
    """Raise Failure where results differ by more than that part of their largest element."""
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        if a.shape != b.shape:
            raise Failure("levels", f"{where}: result {i} has shape {a.shape} instead of {b.shape}")
        size = max(1.0, float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b))))
        good = np.isclose(a, b, rtol=100 * within, atol=within * size, equal_nan=True)
        if not good.all():
            place = tuple(int(k) for k in np.argwhere(~good)[0])
            count = int((~good).sum())
            raise Failure(
                "levels",
                f"{where}: {count} of {b.size}; result {i}{list(place)} is {a[place]} instead of {b[place]}",
            )


def same_at_each_level(
    source: Source, target: str, dims: Mapping[str, int], seed: str, hints: Mapping[str, int]
) -> int:
    """Interpret a program after each pass that changes it, and return how many did. Raises Failure."""
    info = Manifest.parse(
        compile_text(source, Options(target, dims=dict(hints), tuned=False)).manifest
    ).kernels[0]
    inputs = inputs_of(info, dims, seed)
    program, sink = frontend.parse(source)
    module = frontend.lower(program, sink)
    with without_rounding():
        expected = computed(module, inputs)
        known, changed = contents_of(module.walk()), 0
        for step, _ in pipeline(target, hints):
            step.apply(None, module)
            known, before = contents_of(module.walk()), known
            if known != before and step.name not in UNREADABLE:
                changed += 1
                try:
                    got = computed(module, inputs)
                except Exception as error:
                    raise Failure("levels", f"after {step.name}: {type(error).__name__}: {error}") from error
                compared(got, expected, f"after {step.name}")
    return changed


def same_in_each_entry(compilation: Compilation, dims: Mapping[str, int], seed: str) -> int:
    """Interpret every entry of a kernel for one call, and return how many there are. Raises Failure."""
    info = Manifest.parse(compilation.manifest).kernels[0]
    inputs = inputs_of(info, dims, seed)
    with without_rounding():
        expected = compilation.interpret(info.name, inputs, exact=True)
        programs = [p for p in compilation.programs if p.kernel_name == info.name]
        for i, entry in enumerate(programs):
            try:
                got = interpret_program(entry, list(inputs))
            except Exception as error:
                raise Failure("entries", f"entry {i}: {type(error).__name__}: {error}") from error
            compared(got, expected, f"entry {i}")
    return len(programs)


def rounds_nothing(compilation: Compilation, info: KernelInfo, dims: Mapping[str, int], seed: str) -> None:
    """Compare kernels, with their roundings, with a program whose results have 32 bits. Raises Failure."""
    inputs = inputs_of(info, dims, seed)
    with np.errstate(all="ignore"):
        expected = compilation.interpret(info.name, inputs)
        got = compilation.interpret_lowered(info.name, inputs)
    compared(got, expected, "kernels round", within=1e-5)
