"""Random kernels through the whole compiler: every pass keeps meaning, legality, locations and text."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from budget import examples
from builders import context, parsed
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from irgen_random import SIZES, Profile, Sample, samples
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from mucc.dialects.cutlass import ops as c
from mucc.dialects.cutlass.views import view_of
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.interpreter import interpret_kernel
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.dialects.mu.types import Dim, TensorType
from mucc.dialects.rewriting import PassError
from mucc.kernels.gemm.nodes import AuxLoadOp, ColBroadcastOp, RowBroadcastOp, ScalarBroadcastOp, SrcFetchOp
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.interpreter import interpret_program
from mucc.passes.levels import Level, contents_of
from mucc.passes.pipeline import pipeline

EXACT = Profile()
NARROW = Profile(dtypes=("bf16", "f32"), steps=6, positive=True, casts=("bf16",))

LEGALITY = ("legalize-tile", "legalize-pipeline", "legalize-target")
"""The passes that may refuse a program."""


def property_test(count: int) -> Any:
    slow = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
    return settings(max_examples=examples(count), derandomize=True, suppress_health_check=slow)


def text(module: ModuleOp, generic: bool = False) -> str:
    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


def run(module: ModuleOp, inputs: list[Any]) -> list[Any]:
    """The results of the module's one kernel, at whichever level it is."""
    with np.errstate(all="ignore"):
        match module.body.block.first_op:
            case KernelOp() as kernel:
                return interpret_kernel(kernel, inputs)
            case c.ProgramOp() as program:
                return interpret_program(program, inputs)
            case op:
                raise AssertionError(op)


def steps(module: ModuleOp) -> Iterator[tuple[str, Level]]:
    """Run the pipeline on a module, stopping after each pass; a legality error ends it."""
    for step, level in pipeline("sm_90a"):
        try:
            step.apply(context(), module)
        except PassError as error:
            assert step.name in LEGALITY, step.name
            assert all(f.code.startswith("MU3") for f in error.findings)
            return
        yield step.name, level


def changes(module: ModuleOp) -> Iterator[str]:
    """Run the pipeline on a module, stopping after each pass that changed it: most change few programs."""
    known = contents_of(module.walk())
    for name, _ in steps(module):
        known, before = contents_of(module.walk()), known
        if known != before:
            yield name


def finite(values: list[Any]) -> bool:
    return all(np.all(np.isfinite(v)) and np.max(np.abs(v), initial=0.0) < 1e12 for v in values)


def exact_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make storing as f32 exact, so that what is left of a difference is a difference in meaning."""
    rounded = NumpyArrays.round_to

    def round_to(self: NumpyArrays, value: Any, dtype: str) -> Any:
        return self.float64(value) if dtype == "f32" else rounded(self, value, dtype)

    monkeypatch.setattr(NumpyArrays, "round_to", round_to)


@property_test(200)
@given(samples(EXACT))
def test_passes_keep_the_meaning(sample: Sample) -> None:
    with pytest.MonkeyPatch.context() as patch:
        exact_storage(patch)
        inputs = sample.inputs()
        expected = run(sample.module, inputs)
        assume(finite(expected))
        for name in changes(sample.module):
            for got, want in zip(run(sample.module, inputs), expected, strict=True):
                assert got.shape == want.shape, name
                np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-7, err_msg=name)


@property_test(80)
@given(samples(NARROW))
def test_passes_keep_the_meaning_up_to_rounding(sample: Sample) -> None:
    inputs = sample.inputs()
    expected = run(sample.module, inputs)
    assume(finite(expected))
    for name in changes(sample.module):
        for got, want in zip(run(sample.module, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=0.1, atol=1e-6, err_msg=name)


@property_test(120)
@given(samples(Profile(dtypes=("bf16", "f16", "f32"))))
def test_passes_reach_their_level_and_keep_locations(sample: Sample) -> None:
    sample.module.verify()
    known = None
    for name, level in steps(sample.module):
        known = level.verify(sample.module, known)
        for op in sample.module.walk():
            assert isinstance(op, ModuleOp) or isinstance(op.location, FileLineColLoc), f"{name}: {op}"


@property_test(30)
@given(samples(Profile(dtypes=("bf16", "f32"))), st.booleans())
def test_text_round_trips_at_every_level(sample: Sample, generic: bool) -> None:
    for name in chain([""], changes(sample.module)):
        first = text(sample.module, generic)
        again = parsed(first)
        assert sample.module.is_structurally_equivalent(again), name
        assert text(again, generic) == first, name


# What memory looks like, by strides, computed apart from the compiler's own reasoning


def strides_of(type: TensorType, shape: tuple[int, ...]) -> list[int]:
    """Strides in elements; run-time ones are made up so that no two axes fold by accident."""
    match type.layout.kind.data:
        case "row_major":
            order = list(range(len(shape)))
        case "col_major":
            order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        case _:
            primes = (1009, 2003, 4007, 8009)
            return [primes[i] if s is None else s for i, s in enumerate(type.layout.stride_values)]
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis], step = step, step * shape[axis]
    return strides


def view_strides(value: SSAValue, rank: int) -> list[int]:
    """Strides along the axes of a space of `rank` axes, 0 where the view is repeated."""
    view = view_of(value)
    assert isinstance(view.base.type, TensorType)
    base = strides_of(view.base.type, tuple(size(d) for d in view.base.type.dims))
    dims = view.base.type.dims
    own = [0 if a is None or dims[a] == 1 else base[a] for a in view.axes]
    return [0] * (rank - len(own)) + own


def size(dim: Dim) -> int:
    return SIZES[dim] if isinstance(dim, str) else dim


def folds(strides: list[int], extents: list[int]) -> bool:
    """Whether axes count through memory as one axis would."""
    pairs = [(s, d) for s, d in zip(strides, extents, strict=True) if d > 1]
    return all(s == t * d for (s, _), (t, d) in pairwise(pairs))


def check_matrix(strides: list[int], extents: list[int], rows: int) -> None:
    """A tensor as TMA reads it: [batch, rows, columns] with `rows` leading axes taken as rows."""
    batch, m, n = strides[: -rows - 1], strides[-rows - 1 : -1], strides[-1]
    e_batch, e_m, e_n = extents[: -rows - 1], extents[-rows - 1 : -1], extents[-1]
    assert n in (0, 1) or e_n == 1 or (rows == 1 and (m[0] in (0, 1) or e_m[0] == 1))
    assert folds(m, e_m)
    assert not any(batch) or folds(batch, e_batch)


@property_test(150)
@given(samples(Profile(dtypes=("bf16", "f32"), steps=6)))
def test_gemm_tensors_lie_as_tma_reads_them(sample: Sample) -> None:
    for name, _ in steps(sample.module):
        if name == "fuse-epilogue":
            break
    program = sample.module.body.block.first_op
    assert isinstance(program, c.ProgramOp)
    for gemm in program.kernels:
        if isinstance(gemm, GemmOp):
            check_gemm(gemm)


def check_gemm(gemm: GemmOp) -> None:
    ms, ns, ks, batches = ([size(d) for d in part] for part in gemm.shape.extents)
    rank = len(ms) + len(ns) + len(batches)
    rows = len(ms)
    check_matrix(view_strides(gemm.a, rank), [*batches, *ms, *ks], rows)
    check_matrix(view_strides(gemm.b, rank), [*batches, *[1] * (rows - 1), *ks, *ns], 1)
    space = [*batches, *ms, *ns]
    for op in gemm.nodes:
        check_node(op, space, rows)


def check_node(op: Operation, space: list[int], rows: int) -> None:
    rank = len(space)
    m, n = range(rank - 1 - rows, rank - 1), rank - 1
    match op:
        case SrcFetchOp() | AuxLoadOp():
            check_matrix(view_strides(op.source, rank), space, rows)
        case RowBroadcastOp():
            strides = view_strides(op.source, rank)
            assert strides[n] in (0, 1) and not any(strides[i] for i in m)
            assert folds(strides[: m[0]], space[: m[0]]) or not any(strides[: m[0]])
        case ColBroadcastOp():
            strides = view_strides(op.source, rank)
            assert strides[n] == 0 and strides[m[-1]] in (0, 1)
            assert folds([strides[i] for i in m], [space[i] for i in m])
            assert folds(strides[: m[0]], space[: m[0]]) or not any(strides[: m[0]])
        case ScalarBroadcastOp() if isinstance(op.source.type, TensorType):
            strides = view_strides(op.source, rank)
            assert not any(strides[m[0] :])
            assert folds(strides[: m[0]], space[: m[0]]) or not any(strides[: m[0]])
        case _:
            return
