"""Numbers of 8 bits and s32: rounding, tables, products and what they may be multiplied with."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.codegen.memory import CUTLASS_TYPES, VIEW_TYPES
from mucc.compiler.driver import compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu.arrays import INTEGERS, NARROW_FLOATS, NumpyArrays
from mucc.dialects.mu.types import DTYPES, STORABLE, dtype_bytes
from mucc.frontend import parser
from mucc.kernels.gemm.description import config_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import sm90_memory
from mucc.library.signature import ITEM_BYTES

ARRAYS = NumpyArrays()


def numbers(dtype: str) -> np.ndarray:
    """Every finite number of an 8-bit float, from the definition of the format, in order."""
    format = NARROW_FLOATS[dtype]
    fractions = np.arange(2**format.mantissa) / 2**format.mantissa
    found = list(fractions * 2.0**format.exponent)
    exponent = format.exponent
    while 2.0**exponent <= format.largest:
        found += list((1 + fractions) * 2.0**exponent)
        exponent += 1
    positive = np.array([x for x in found if x <= format.largest])
    return np.unique(np.concatenate([-positive, positive]))


@pytest.mark.parametrize(("dtype", "count"), [("e4m3", 253), ("e5m2", 247)])
def test_numbers_of_a_narrow_float_stay(dtype: str, count: int) -> None:
    values = numbers(dtype)
    assert len(values) == count  # of 256: NaN twice or six times, infinities, and 0 twice
    assert np.array_equal(ARRAYS.round_to(values, dtype), values)


@pytest.mark.parametrize("dtype", NARROW_FLOATS)
@given(st.floats(-70000, 70000, width=32))
def test_a_narrow_float_is_the_nearest(dtype: str, x: float) -> None:
    values = numbers(dtype)
    got = float(ARRAYS.round_to(np.array(x), dtype))
    assert got in values
    assert abs(got - x) == np.min(np.abs(values - x))


@pytest.mark.parametrize("dtype", NARROW_FLOATS)
def test_ties_go_to_even_numbers(dtype: str) -> None:
    values = numbers(dtype)
    values = values[values >= 0]
    ties = (values[1:] + values[:-1]) / 2
    even = np.where(np.arange(len(ties)) % 2 == 0, values[:-1], values[1:])
    assert np.array_equal(ARRAYS.round_to(ties, dtype), even)


@pytest.mark.parametrize("dtype", [*NARROW_FLOATS, *INTEGERS])
def test_stores_saturate(dtype: str) -> None:
    least, most = INTEGERS.get(dtype) or (-NARROW_FLOATS[dtype].largest, NARROW_FLOATS[dtype].largest)
    got = ARRAYS.round_to(np.array([-1e30, 1e30, -np.inf, np.inf]), dtype)
    assert got.tolist() == [least, most, least, most]
    assert np.isnan(ARRAYS.round_to(np.array(np.nan), dtype)) == (dtype in NARROW_FLOATS)


def test_integers_round_to_even() -> None:
    halves = np.array([-1.5, -0.5, 0.5, 1.5, 2.5])
    assert ARRAYS.round_to(halves, "s8").tolist() == [-2, 0, 0, 2, 2]
    assert ARRAYS.round_to(np.array([2.0**31 - 3]), "s32").tolist() == [2**31 - 3]


def test_torch_rounds_alike() -> None:
    torch: Any = pytest.importorskip("torch")
    from mucc.dialects.mu.arrays import TorchArrays

    random = np.random.default_rng(1)
    values = random.standard_normal(5000) * 10.0 ** random.integers(-6, 10, 5000)
    values[:4] = [np.nan, np.inf, -np.inf, 0.0]
    arrays = TorchArrays(torch.device("cpu"))
    for dtype in STORABLE:
        got = arrays.round_to(torch.tensor(values), dtype).numpy()
        assert np.array_equal(got, ARRAYS.round_to(values, dtype), equal_nan=True), dtype


def test_tables_agree() -> None:
    assert set(STORABLE) == set(parser.DTYPES) == set(CUTLASS_TYPES) == set(VIEW_TYPES)
    assert {n: dtype_bytes(DTYPES[n]) for n in STORABLE} == {n: ITEM_BYTES[n] for n in STORABLE}


def kernel(a: str, b: str, out: str, body: str = "x @ w.T", w: str = "N, K") -> str:
    return f"kernel f[M, N, K](x: {a}[M, K], w: {b}[{w}]) -> {out}[M, N] {{ return {body} }}"


def errors(text: str) -> list[tuple[str, str]]:
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("f.mcu", text)).emit("cutlass")
    return [(d.code, d.message) for d in caught.value.diagnostics]


NARROW = ("e4m3", "e5m2", "s8", "u8")
PAIRS = [
    *((d, d) for d in ("bf16", "f16", "f32")),
    *((a, b) for family in (NARROW[:2], NARROW[2:]) for a in family for b in family),
    *((a, b) for a in ("bf16", "f16") for b in (*NARROW, "s4", "u4")),
    *((a, b) for a in (*NARROW, "s4", "u4") for b in ("bf16", "f16")),
]


@pytest.mark.parametrize("a", [d for d in STORABLE if d != "s32"])
@pytest.mark.parametrize("b", [d for d in STORABLE if d != "s32"])
def test_only_some_dtypes_multiply_with_each_other(a: str, b: str) -> None:
    if (a, b) in PAIRS:
        compile_text(Source("f.mcu", kernel(a, b, "f32"))).emit("cu")
    else:
        code = "MU1060" if (a, b) in (("s4", "s4"), ("u4", "u4")) else "MU1025"
        assert errors(kernel(a, b, "f32"))[0][0] == code


def test_s32_does_not_multiply() -> None:
    assert errors(kernel("s32", "s32", "s32")) == [("MU1060", "s32 operands cannot be multiplied by @")]


@pytest.mark.parametrize(("other", "dtypes"), [("s32", ["f32"]), ("s8", ["f32"]), ("bf16", ["bf16", "f32"])])
def test_help_against_s32_factors_is_legal(other: str, dtypes: list[str]) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("f.mcu", kernel("s32", other, "f32")))
    (found,) = caught.value.diagnostics
    assert [re.findall(r"cast\(..., (\w+)\)", help) for help in found.helps] == [[d] for d in dtypes]
    for dtype, help in zip(dtypes, found.helps, strict=True):
        right = f"cast(w.T, {dtype})" if "both" in help else "w.T"
        compile_text(Source("f.mcu", kernel("s32", other, "f32", f"cast(x, {dtype}) @ {right}")))


@pytest.mark.parametrize(("dtype", "acc"), [("bf16", "fast"), ("s8", "fast"), ("s8", "f32"), ("f32", "fast")])
def test_sums_that_cannot_be_had(dtype: str, acc: str) -> None:
    assert errors(kernel(dtype, dtype, "f32", f"matmul(x, w.T, acc={acc})"))[0][0] == "MU1061"


def test_fast_accumulation_takes_another_mainloop() -> None:
    exact = compile_text(Source("f.mcu", kernel("e4m3", "e4m3", "f32"))).emit("cu")
    fast = compile_text(Source("f.mcu", kernel("e4m3", "e4m3", "f32", "matmul(x, w.T, acc=fast)"))).emit("cu")
    assert "FP8FastAccum" not in exact and "_fp8.hpp" in exact
    assert "FP8FastAccum" in fast and "_fp8.hpp" not in fast


def test_8_bit_operands_that_are_not_contiguous_along_k_are_copied() -> None:
    text = compile_text(Source("f.mcu", kernel("s8", "s8", "s32", "x @ w", "K, N"))).emit("cutlass")
    assert text.count("cutlass.map") == 1
    assert "!mu.tensor<[K, N], si8, col_major>" in text


def test_sums_of_integers_are_stored_exactly() -> None:
    text = kernel("s8", "u8", "s32")
    compilation = compile_text(Source("f.mcu", text))
    assert "mucc::gemm::Exact" in compilation.emit("cu")
    x, w = np.full((1, 3), 127.0), np.full((2, 3), 255.0)
    x[0, 0] = 126
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        (got,) = interpret("f", [x, w])
        assert got.tolist() == [[255.0 * (127 + 127 + 126)] * 2]


def test_arithmetic_on_narrow_numbers_is_f32() -> None:
    text = "kernel f[M](x: s8[M], y: s8[M]) -> f32[M] { return x + y }"
    (got,) = compile_text(Source("f.mcu", text)).interpret("f", [np.array([100.0]), np.array([100.0])])
    assert got.tolist() == [200.0]


GROUPED = (
    "kernel f[M, N, K](x: bf16[M, K], w: u8[N, K], s: bf16[N, K/4], z: u8[N, K/4]) -> f32[M, N] {\n"
    "    return x @ dequantize(w, s, z).T\n}"
)


def test_scales_hold_for_groups_along_k() -> None:
    compilation = compile_text(Source("f.mcu", GROUPED))
    random = np.random.default_rng(2)
    x = ARRAYS.round_to(random.standard_normal((3, 16)), "bf16")
    w, z = random.integers(0, 256, (8, 16)), random.integers(0, 256, (8, 4))
    s = ARRAYS.round_to(random.standard_normal((8, 4)), "bf16")
    weights = ARRAYS.round_to((w - np.repeat(z, 4, axis=1)) * np.repeat(s, 4, axis=1), "bf16")
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        (got,) = interpret("f", [x, w, s, z])
        assert np.allclose(got, x @ weights.T, rtol=1e-6)
    kernel = compilation.manifest["kernels"][0]
    assert "K/4" in [extent for arg in kernel["args"] for extent in arg.get("shape", ())]
    assert {"text": "K % 4 == 0", "why": "follows from the extents of its tensors"} in kernel["promises"]


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ("w: s8[N, K], s: bf16[N, G]", "MU1062"),
        ("w: s8[N, K], s: bf16[K/4, N]", "MU1062"),
        ("w: s8[N, 100], s: bf16[N, 7]", "MU1062"),
        ("w: s8[N, K] col_major, s: bf16[N, K/4]", "MU1064"),
        ("w: bf16[N, K], s: bf16[N, K/4]", "MU1064"),
        ("w: s8[N, K], s: s8[N, K/4]", "MU1064"),
        ("w: s8[N, K], s: bf16[N, P/3]", "MU1063"),
    ],
)
def test_scales_that_do_not_fit(parameters: str, code: str) -> None:
    dims = "N, K, P=10" + ", G" * ("G" in parameters)
    text = f"kernel f[{dims}]({parameters}, k: f32[K]) -> f32[N, K] {{ return dequantize(w, s) + k }}"
    assert code in {c for c, _ in errors(text)}


def test_a_part_of_a_dim_is_another_extent() -> None:
    assert errors("kernel f[K](x: f32[K]) -> f32[K/4] { return x }")[0][0] == "MU1012"


SCALED = (
    "kernel f[M, N, K](x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128])\n"
    "    -> f32[M, N]\n{\n    return matmul(x, w.T, scale_a=a, scale_b=b)\n}"
)


def test_blocks_are_scaled() -> None:
    compilation = compile_text(Source("f.mcu", SCALED))
    random = np.random.default_rng(3)
    x, w = (ARRAYS.round_to(random.standard_normal((rows, 384)), "e4m3") for rows in (3, 256))
    a, b = random.random((3, 3)), random.random((2, 3))
    whole = np.repeat(a, 128, axis=1), np.repeat(np.repeat(b, 128, axis=0), 128, axis=1)
    for interpret in (compilation.interpret, compilation.interpret_lowered):
        (got,) = interpret("f", [x, w, a, b])
        assert np.allclose(got, (x * whole[0]) @ (w * whole[1]).T)
    assert "Sm90BlockwiseScaleConfig<1, 128, 128" in compilation.emit("cu")


@pytest.mark.parametrize(
    "parameters",
    [
        "x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/64], b: f32[N/128, K/64]",
        "x: e4m3[M, K], w: e4m3[N, K], a: f32[M/64, K/128], b: f32[N/128, K/128]",
        "x: e4m3[M, K], w: e4m3[N, K], a: bf16[M, K/128], b: f32[N/128, K/128]",
        "x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128] col_major, b: f32[N/128, K/128]",
        "x: bf16[M, K], w: bf16[N, K], a: f32[M, K/128], b: f32[N/128, K/128]",
    ],
)
def test_block_scales_that_do_not_fit(parameters: str) -> None:
    body = "return matmul(x, w.T, scale_a=a, scale_b=b)"
    assert errors(f"kernel f[M, N, K]({parameters}) -> f32[M, N] {{ {body} }}")[0][0] == "MU1065"


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("tile = 128x192x128", "MU3032"),
        ("tile = 128x128x64", "MU3032"),
        ("mainloop = warpspecialized", "MU3034"),
        ("mainloop = skinny", "MU3034"),
    ],
)
def test_schedules_that_block_scales_do_not_have(setting: str, code: str) -> None:
    assert code in {c for c, _ in errors(f"{SCALED}\n\nschedule f for sm_90a {{\n    {setting}\n}}")}


# Programs with the most stages that fit, the sizeof of CollectiveEpilogue::SharedStorage and, with these
# stages, of Kernel::SharedStorage; checked by static assertions in the host half (CUTLASS 4.2.0, g++ 13).
STORAGE = [
    (
        "x: e4m3[M, K], w: e4m3[N, K], b: bf16[N], r: bf16[M, N]",
        "bf16",
        "x @ w.T + b + r",
        "128x128x128",
        "cooperative",
        (6, 33792, 230400),
    ),
    (
        "x: e4m3[M, K], w: e4m3[N, K], r: e4m3[M, N]",
        "e4m3",
        "x @ w.T + r",
        "64x128x128",
        "pingpong",
        (8, 17408, 214016),
    ),
    (
        "x: s8[M, K], w: s8[N, K], s: f32[N]",
        "s8",
        "(x @ w.T) * s",
        "64x192x128",
        "pingpong",
        (6, 9728, 206336),
    ),
    (
        "x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N/128, K/128], v: f32[N], r: f32[M, N]",
        "f32",
        "matmul(x, w.T, scale_a=a, scale_b=b) + v + r",
        "128x128x128",
        "cooperative",
        (4, 67584, 201728),
    ),
    (
        "x: e4m3[M, K], w: e4m3[N, K], a: f32[M, K/128], b: f32[N, K/128], r: f16[M, N]",
        "f16",
        "matmul(x, w.T, scale_a=a, scale_b=b) + r",
        "64x64x128",
        "pingpong",
        (12, 13312, 216064),
    ),
]


@pytest.mark.parametrize(("parameters", "out", "body", "tile", "mainloop", "sizes"), STORAGE)
def test_shared_memory_is_that_of_the_compiler(
    parameters: str, out: str, body: str, tile: str, mainloop: str, sizes: tuple[int, int, int]
) -> None:
    text = f"kernel f[M, N, K]({parameters}) -> {out}[M, N] {{ return {body} }}\n"
    text += f"schedule f for sm_90a {{ tile = {tile} mainloop = {mainloop} }}"
    module = compile_text(Source("f.mcu", text)).cutlass
    (gemm,) = [op for op in module.walk() if isinstance(op, GemmOp)]
    assert gemm.stages is not None
    config, stages = config_of(gemm), gemm.stages.value.data
    storage = sm90_memory.kernel_storage(config, stages)
    assert (stages, sm90_memory.epilogue_storage(config).size, storage) == sizes
