"""Packing matrices with the 2:4 pattern: against what was packed, against CUTLASS, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from rulelib import check_explanation, mend

import mucc
from mucc.build.toolchain.assembly import host_flags
from mucc.build.toolchain.discover import find_toolchain
from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.diagnostics.core import DiagnosticError
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand, Sparse
from mucc.library.errors import MuccError
from mucc.library.signature import Manifest, evaluate
from mucc.library.sparse import Form, densify, is_packed, prune, sparsify

HARNESS = Path(__file__).with_name("sparse_compressor.cpp")

DTYPES = ("float16", "float32", "int8", "uint8", "uint16")


def memory(packed: Any) -> bytes:
    """All that a packed matrix has in memory."""
    rows, columns = packed.shape
    form = Form(rows, columns, packed.dtype.itemsize)
    return as_strided(packed, (form.bytes // form.item,), (form.item,)).tobytes()


def pattern(rows: int, columns: int, dtype: str, seed: int = 0) -> Any:
    """A random matrix with the pattern, many of whose chunks have fewer values than they may."""
    random = np.random.default_rng(seed)
    if dtype == "uint16":
        values = random.integers(1 << 16, size=(rows, columns), dtype=np.uint16)
        values[values == 1 << 15] = 0  # bf16's other zero, of which only the value is kept
    else:
        values = (20 * random.standard_normal((rows, columns))).astype(dtype)
    values[random.random((rows, columns)) < 0.4] = 0
    return prune(values)


@st.composite
def matrices(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(DTYPES))
    unit = 32 // np.dtype(dtype).itemsize
    rows, columns = draw(st.integers(2, 140)), unit * draw(st.integers(1, 12))
    return pattern(rows, columns, dtype, draw(st.integers(0, 999)))


@given(matrices())
def test_a_packed_matrix_unpacks_to_what_it_was(dense: Any) -> None:
    packed = sparsify(dense)
    assert packed.shape == dense.shape and packed.dtype == dense.dtype
    assert is_packed(packed) and not is_packed(dense)
    np.testing.assert_array_equal(densify(packed), dense)


@given(matrices())
def test_half_of_a_chunk_stays(dense: Any) -> None:
    chunk = 2 if dense.dtype.itemsize == 4 else 4
    full: Any = np.where(dense == 0, np.ones_like(dense), dense)
    kept: Any = prune(full).reshape(dense.shape[0], -1, chunk)
    assert ((kept != 0).sum(axis=-1) == chunk // 2).all()
    if dense.dtype != np.uint16:
        sizes = np.abs(full.reshape(kept.shape).astype(np.float64))
        least, most = np.where(kept != 0, sizes, np.inf).min(-1), np.where(kept == 0, sizes, 0).max(-1)
        assert (least >= most).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint8"])
def test_torch_packs_alike(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    dense = pattern(70, 160, dtype)
    packed = sparsify(torch.from_numpy(dense))
    form = Form(70, 160, dense.dtype.itemsize)
    whole = packed.as_strided((form.bytes // form.item,), (1,)).numpy()
    assert whole.tobytes() == memory(sparsify(dense))
    assert torch.equal(densify(packed), torch.from_numpy(dense))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_formats_that_numpy_lacks(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    weights = torch.randn(72, 96).to(getattr(torch, dtype))
    packed = mucc.sparsify(weights, prune=True)
    assert torch.equal(mucc.densify(packed).float(), prune(weights).float())
    assert packed.stride() == (48, 1)
    assert not is_packed(packed.clone())


def test_zeros_of_either_sign_are_zeros() -> None:
    dense = np.array([[1, -0.0, 2, -0.0] * 4] * 2, dtype=np.float16)
    np.testing.assert_array_equal(densify(sparsify(dense)), dense)


def test_the_first_place_without_the_pattern_is_named() -> None:
    dense = pattern(8, 32, "float16")
    dense[3, 20:23] = 1
    with pytest.raises(MuccError, match=r"MU6080: row 3, columns 20 to 23 have [34] values") as caught:
        sparsify(dense)
    assert caught.value.code == "MU6080"
    assert is_packed(sparsify(dense, prune=True))


@pytest.mark.parametrize(
    "weights",
    [
        np.zeros((4, 24), np.float16),
        np.zeros((1, 32), np.float16),
        np.zeros((4, 32), np.float64),
        np.zeros((4, 32), np.bool_),
        np.zeros((2, 4, 32), np.float16),
        [[0.0] * 32] * 2,
    ],
)
def test_what_cannot_be_packed(weights: Any) -> None:
    with pytest.raises(MuccError, match="MU6081"):
        sparsify(weights)


def test_only_what_is_packed_unpacks() -> None:
    with pytest.raises(MuccError, match="MU6081"):
        densify(np.zeros((4, 32), np.float16))


SM90 = gemm_target("sm_90a")
SPARSE = Operand(form=Sparse())
COMPUTES = ("bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8")
MAINLOOPS = ("cooperative", "pingpong", "warpspecialized", "multistage", "skinny")
sizes = st.integers(-8, 400) | st.sampled_from((16, 32, 64, 128, 192, 256))


@st.composite
def configs(draw: st.DrawFn) -> GemmConfig:
    compute, scheduler = draw(st.sampled_from(COMPUTES)), draw(st.sampled_from(("persistent", "stream_k")))
    epilogue = Epilogue(draw(st.sampled_from((1, 2, 4))), draw(st.sampled_from((None, 2))))
    a, b = draw(st.permutations((Operand(), SPARSE)))
    problem = Problem(compute, a, b, epilogue)
    schedule = Schedule(
        draw(st.tuples(sizes, sizes, sizes)),
        draw(st.sampled_from(((1, 1), (2, 1), (1, 2), (3, 1), (4, 4)))),
        draw(st.sampled_from(MAINLOOPS)),
        scheduler,
        exchanged=draw(st.booleans()),
    )
    return GemmConfig(problem, schedule)


@settings(max_examples=examples(40))
@given(configs(), st.none() | st.integers(0, 9))
def test_fixes_lead_to_a_legal_kernel(config: GemmConfig, stages: int | None) -> None:
    config, stages = mend(SM90, config, stages)
    assert config.problem.a.is_sparse
    assert config.schedule.tile[2] in ((64,) if config.problem.compute == "tf32" else (128, 256))


extents = st.none() | st.integers(1, 1200).map(lambda n: 16 * n)


@settings(max_examples=examples(20))
@given(st.sampled_from(COMPUTES), extents, extents, extents, st.sampled_from(("a", "b")))
def test_default_schedules_take_the_sparse_operand_first(
    compute: str, m: int | None, n: int | None, k: int | None, sparse: str
) -> None:
    problem = Problem(compute, m=m, n=n, k=k)._replace(**{sparse: SPARSE})
    schedule = SM90.default_schedule(problem)
    assert SM90.is_legal(problem.config(schedule), schedule.stages)
    assert schedule.exchanged == (sparse == "b")


@pytest.mark.parametrize("code", ["MU3140", "MU3141", "MU3142"])
def test_explanations(code: str) -> None:
    check_explanation(code)


def test_a_sparse_product_is_expected_to_take_less_time() -> None:
    dense = Problem("bf16", m=8192, n=8192, k=8192)
    sparse = dense._replace(a=SPARSE)
    seconds = [SM90.estimate(p, SM90.default_schedule(p)).seconds for p in (dense, sparse)]
    assert 0.5 * seconds[0] < seconds[1] < 0.85 * seconds[0]


CUTLASS = (
    ("cutlass::half_t", "float16", 128, 200, 528),
    ("cutlass::half_t", "float16", 256, 72, 144),
    ("int8_t", "int8", 128, 64, 288),
    ("int8_t", "int8", 256, 200, 160),
    ("float", "float32", 64, 200, 72),
)
"""Types, tile K that kernels of them may have, and sizes: of whole blocks of metadata and not."""


@pytest.fixture(scope="module")
def compressor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CUTLASS's compressor for all cases."""
    try:
        toolchain = find_toolchain()
        paths = toolchain.tools()
    except DiagnosticError as error:
        pytest.skip(str(error))
    binary = tmp_path_factory.mktemp("sparse") / "compressor"
    cases = ", ".join(f"pack<{case[0]}, {', '.join(map(str, case[2:]))}>" for case in CUTLASS)
    words = ("{cxx}", *host_flags(toolchain), "-include", "mucc_shim.h", str(HARNESS), "-o", str(binary))
    command = [*(word.format(**paths) for word in words), f"-DCASES={cases}"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return binary


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("element", "dtype", "tile", "rows", "columns"),
    # Without `::`, at which `--dist loadscope` divides: the compressor would be built for each scope.
    [pytest.param(*case, id="-".join(map(str, case[1:]))) for case in CUTLASS],
)
def test_memory_is_what_cutlass_packs(
    element: str, dtype: str, tile: int, rows: int, columns: int, compressor: Path
) -> None:
    dense = pattern(rows, columns, dtype)
    command = [compressor, str(CUTLASS.index((element, dtype, tile, rows, columns)))]
    packed = subprocess.run(command, input=dense.tobytes(), capture_output=True, check=True)
    form, mine = Form(rows, columns, dense.dtype.itemsize), memory(sparsify(dense))
    assert packed.stdout == mine[: form.value_bytes] + mine[form.offset :]


LINEAR = """\
kernel linear[M, N, K](x: bf16[M, K], w: bf16[N, K] sparse) -> bf16[M, N] {
    return x @ w.T
}
"""


def test_interpreters_take_packed_and_dense_matrices() -> None:
    compilation = compile_text(Source("k.mcu", LINEAR))
    w = pattern(24, 32, "float16")
    x = np.random.default_rng(2).standard_normal((5, 32))
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        (dense,), (packed,) = interpret("linear", [x, w]), interpret("linear", [x, sparsify(w)])
        np.testing.assert_array_equal(dense, packed)
        np.testing.assert_allclose(dense, x @ w.T.astype(np.float64), rtol=2**-7, atol=2**-7)


def test_the_manifest_counts_what_is_stored() -> None:
    (kernel,) = Manifest.parse(compile_text(Source("k.mcu", LINEAR)).emit("manifest")).kernels
    assert kernel.signature == "linear[M, N, K](x: bf16[M, K], w: bf16[N, K] sparse) -> bf16[M, N]"
    assert (
        "K % 16 == 0",
        "stored halves of rows of 'w' are copied in multiples of 16 bytes",
    ) in kernel.promises
    dims = {"M": 64, "N": 128, "K": 256}
    stored = Form(128, 256, 2).bytes
    assert evaluate(kernel.bytes, dims) == 64 * 256 * 2 + stored + 64 * 128 * 2
    assert evaluate(kernel.flops["tensor.bf16"], dims) == 64 * 128 * 256
