"""Weights of 4 and 8 bits with 16-bit activations: which kernel converts them, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rulelib import check_explanation, mend

import mucc
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Narrow, Operand
from mucc.kernels.gemm.scheduling.sm90_rules import mixes_group
from mucc.kernels.map.op import MapOp
from mucc.library.errors import MuccValueError

ARRAYS = NumpyArrays()
TARGET = gemm_target("sm_90a")


def compiled(text: str, target: str = "sm_90a", **options: Any) -> Compilation:
    return compile_text(Source("f.mcu", text), Options(target, **options))


def kernels(compilation: Compilation) -> list[str]:
    """The device kernels in order: `mixed` and `gemm` for contractions, `map`."""
    found: list[str] = []
    for op in compilation.cutlass.walk():
        if isinstance(op, GemmOp):
            found.append("gemm" if op.narrow is None else "mixed")
        elif isinstance(op, MapOp):
            found.append("map")
    return found


def product(
    w: str = "s8[N, K]", s: str = "bf16[N, K/128]", body: str = "x @ dequantize(w, s).T", more: str = ""
) -> str:
    return f"kernel f[M, N, K](x: bf16[M, K], w: {w}, s: {s}{more}) -> bf16[M, N] {{ return {body} }}"


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8", "e4m3", "e5m2"])
@pytest.mark.parametrize("group", [16, 32, 64, 128, 256])
def test_the_product_converts_groups_of_its_weights(dtype: str, group: int) -> None:
    text = product(f"{dtype}[N, K]", f"bf16[N, K/{group}]")
    assert kernels(compiled(text)) == ["mixed"]
    assert not compiled(text).sink.diagnostics


def test_scales_may_lie_anyhow_and_be_computed() -> None:
    assert kernels(compiled(product(s="bf16[N, K/128] col_major"))) == ["mixed"]
    assert kernels(compiled(product(s="bf16[K/128, N]", body="x @ dequantize(w, s.T).T"))) == ["mixed"]
    assert kernels(compiled(product(body="x @ dequantize(w, 2 * s).T"))) == ["map", "mixed"]


def test_weights_on_the_left_are_not_exchanged() -> None:
    text = "kernel f[M, N, K](w: s4[M, K], s: f16[M, K/64], x: f16[K, N] col_major) -> f16[M, N] {\n"
    compilation = compiled(text + "    return dequantize(w, s) @ x\n}")
    (gemm,) = (op for op in compilation.cutlass.walk() if isinstance(op, GemmOp))
    assert gemm.narrow == 0 and not gemm.is_exchanged and gemm.group == 64


FALLBACKS = [
    ("sm_80", product(), "no kernel of sm_80 converts weights"),
    ("sm_90a", product(s="bf16[N, K/48]"), "tiles do not consist of groups of 48"),
    ("sm_90a", product().replace("f[M, N, K]", "f[M, N=100, K]"), "rows of the result have 100 elements"),
]


@pytest.mark.parametrize(("target", "text", "why"), FALLBACKS)
def test_what_no_kernel_converts_is_converted_before_with_a_note(target: str, text: str, why: str) -> None:
    compilation = compiled(text, target)
    assert kernels(compilation) == ["map", "gemm"]
    (note,) = compilation.sink.diagnostics
    assert (note.code, note.severity) == ("MU3133", "note") and why in note.notes[0]


def test_elements_that_lie_apart_are_copied_and_weights_converted_before() -> None:
    text = (
        "kernel f[M=264, N, K](x: f16[M, K] strides(65536, _), w: s8[N, K]) -> f16[M, N] { return x @ w.T }"
    )
    compilation = compiled(text)
    assert kernels(compilation) == ["map", "map", "gemm"]
    (note,) = compilation.sink.diagnostics
    assert note.code == "MU3133" and "those of the f16 operand are apart" in note.notes[0]


def test_weights_across_k_are_converted_before() -> None:
    text = "kernel f[M, N, K](x: bf16[M, K], w: e4m3[K, N]) -> bf16[M, N] { return x @ w }"
    compilation = compiled(text)
    assert kernels(compilation) == ["map", "gemm"]
    assert [d.code for d in compilation.sink.diagnostics] == ["MU3133"]


def test_what_is_pinned_is_converted_before_without_a_note() -> None:
    text = product().replace("return x @ dequantize(w, s).T", "stage h = dequantize(w, s) return x @ h.T")
    compilation = compiled(text)
    assert kernels(compilation)[-1] == "gemm" and not compilation.sink.diagnostics


def quantised(
    random: np.random.Generator, dtype: str, shape: tuple[int, int], group: int
) -> tuple[np.ndarray, ...]:
    least, most = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128), "u8": (0, 256)}[dtype]
    weights = random.integers(least, most, shape).astype(np.float64)
    scales = ARRAYS.round_to(random.standard_normal((shape[0], shape[1] // group)), "bf16")
    zeros = random.integers(0, 8, scales.shape).astype(np.float64)
    scale, zero = (np.repeat(v, group, axis=1) for v in (scales, zeros))
    return weights, scales, zeros, ARRAYS.round_to((weights - zero) * scale, "bf16")


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_every_level_means_the_same(dtype: str, target: str) -> None:
    text = product(f"{dtype}[N, K]", "bf16[N, K/32]", "x @ dequantize(w, s, z).T", ", z: u8[N, K/32]")
    compilation = compiled(text, target)
    random = np.random.default_rng(3)
    w, s, z, wide = quantised(random, dtype, (16, 96), 32)
    x = ARRAYS.round_to(random.standard_normal((5, 96)), "bf16")
    wanted = ARRAYS.round_to(x @ wide.T, "bf16")
    pack = {"s4": mucc.pack_s4, "u4": mucc.pack_u4}.get(dtype)
    given_as = [w, pack(w.astype(np.int8))] if pack else [w]
    for weights in given_as:
        for interpret in (compilation.interpret, compilation.interpret_lowered):
            (got,) = interpret("f", [x, weights, s, z])
            assert np.array_equal(ARRAYS.round_to(got, "bf16"), wanted)


@given(st.lists(st.integers(-8, 7), min_size=2, max_size=40).map(lambda v: v[: len(v) // 2 * 2]))
def test_packing_is_undone_by_unpacking(values: list[int]) -> None:
    whole = np.array(values, dtype=np.int64)
    packed = mucc.pack_s4(whole)
    assert packed.dtype == np.uint8 and packed.shape == (len(values) // 2,)
    assert [int(b) for b in packed] == [
        (a & 15) | (b & 15) << 4 for a, b in zip(values[::2], values[1::2], strict=True)
    ]
    assert mucc.unpack_s4(packed).tolist() == mucc.unpack_s4(packed.view(np.int8)).tolist() == values
    torch = pytest.importorskip("torch")
    turned = mucc.pack_s4(torch.tensor(values, dtype=torch.int8))
    assert turned.dtype == torch.uint8 and turned.tolist() == packed.tolist()
    assert mucc.unpack_s4(turned).tolist() == values


@given(st.lists(st.integers(0, 15), min_size=2, max_size=40).map(lambda v: v[: len(v) // 2 * 2]))
def test_packing_without_a_sign_is_undone_by_unpacking(values: list[int]) -> None:
    packed = mucc.pack_u4(np.array(values))
    assert [int(b) for b in packed] == [a | b << 4 for a, b in zip(values[::2], values[1::2], strict=True)]
    assert mucc.unpack_u4(packed).tolist() == values
    with pytest.raises(MuccValueError, match="u4 holds 0 to 15"):
        mucc.pack_u4(np.array([*values, -1, 0]))


@pytest.mark.parametrize("values", [np.array([8, 0]), np.array([1, 2, 3]), np.array([1.0, 2.0]), np.array(1)])
def test_what_cannot_be_packed(values: np.ndarray) -> None:
    with pytest.raises(MuccValueError, match="MU6043"):
        mucc.pack_s4(values)
    with pytest.raises(MuccValueError, match="MU6043"):
        mucc.unpack_s4(values.astype(np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "kernel f[N, K](w: s4[N, K]) -> s4[N, K] { return w }",
        "kernel f[N, K](w: s4[N, K] col_major) -> f32[N, K] { return w + 0 }",
        "kernel f[N](w: s4[N, 3]) -> f32[N, 3] { return w + 0 }",
        "kernel f(w: s4[]) -> f32[] { return w + 0 }",
        "kernel f[N, K](w: s4[N, K]) -> f32[N, K] { stage h = w return h + 0 }",
        "kernel f[N, K, M](w: s4[N, K], r: s32[M]) -> f32[M, K] { return gather(w, r) + 0 }",
    ],
)
def test_numbers_that_share_bytes_are_parameters_only(text: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compiled(text)
    assert "MU1066" in {d.code for d in caught.value.diagnostics}


def test_a_map_reads_numbers_that_share_bytes() -> None:
    compilation = compiled("kernel f[N, K](w: s4[N, K]) -> s8[N, K] { return 2 * w }")
    values = np.array([[-8, 7, 0, -1]])
    (got,) = compilation.interpret_lowered("f", [mucc.pack_s4(values)])
    assert got.tolist() == [[-16, 14, 0, -2]]
    assert {"text": "K % 2 == 0", "why": "two s4 of 'w' share a byte"} in compilation.manifest["kernels"][0][
        "promises"
    ]


# Rules


def problem(bits: int = 8, group: int = 0, zeros: bool = False, **given: Any) -> Problem:
    return Problem("bf16", b=Operand(form=Narrow(bits, group, zeros)), **given)


@given(
    bits=st.sampled_from([4, 8]),
    group=st.sampled_from([0, 16, 32, 64, 128, 192, 256]),
    zeros=st.booleans(),
    tile=st.tuples(
        st.sampled_from([64, 128, 192, 256]),
        st.sampled_from([8, 16, 32, 96, 128, 256]),
        st.sampled_from([16, 32, 64, 128, 256]),
    ),
    mainloop=st.sampled_from(["cooperative", "pingpong", "warpspecialized", "multistage", "skinny"]),
    exchanged=st.booleans(),
)
def test_a_schedule_can_be_mended(
    bits: int, group: int, zeros: bool, tile: tuple[int, int, int], mainloop: str, exchanged: bool
) -> None:
    schedule = Schedule(tile, mainloop=mainloop, exchanged=exchanged)
    config, stages = mend(TARGET, problem(bits, group, zeros and bool(group)).config(schedule), None)
    assert config.problem.narrow is not None
    if config.schedule.mainloop != "skinny":
        assert config.problem.a.narrow is not None
        assert not group or mixes_group(group, config.schedule.tile[2])
    assert TARGET.smem_bytes_used(config, stages or TARGET.max_stages(config)) <= 232448


@pytest.mark.parametrize("m", [1, 16, 128, 4096, None])
@pytest.mark.parametrize("bits", [4, 8])
def test_default_schedules_are_legal(m: int | None, bits: int) -> None:
    seen = problem(bits, 128, True, m=m, n=4096, k=4096)
    schedule = TARGET.default_schedule(seen)
    assert TARGET.violations(seen.config(schedule), schedule.stages) == []


def test_fewer_bits_of_weights_are_read_sooner() -> None:
    schedule = Schedule((128, 16, 64), mainloop="cooperative", exchanged=True)
    seconds = [
        TARGET.estimate(p, schedule).seconds
        for p in (problem(4, 128, m=16, n=28672, k=8192), problem(8, 128, m=16, n=28672, k=8192))
    ]
    assert seconds[0] < seconds[1]


@pytest.mark.parametrize("code", ["MU3130", "MU3131", "MU3132", "MU1066"])
def test_explanations_hold(code: str) -> None:
    check_explanation(code)


# The skinny mainloop


@pytest.mark.parametrize("dtype", ["s4", "u4", "s8", "u8", "e4m3", "e5m2"])
@pytest.mark.parametrize("group", [16, 32, 128])
def test_a_skinny_kernel_converts_what_it_reads_once(dtype: str, group: int) -> None:
    text = product(f"{dtype}[N, K]", f"bf16[N, K/{group}]")
    compilation = compiled(f"{text}\nschedule f for sm_90a {{ mainloop = skinny }}")
    assert kernels(compilation) == ["mixed"]
    text = compilation.emit("cu")
    assert "kMixed = true" in text and f"kGroup = {group}" in text and "PerGroup<mucc::bf16> scales" in text


def test_a_skinny_kernel_that_converts_can_be_mended() -> None:
    schedule = Schedule((64, 8, 64), mainloop="skinny")
    (found,) = TARGET.violations(problem(8, 128).config(schedule))
    assert (found.code, found.fix) == ("MU3134", "8x64x64")
    check_explanation("MU3134")


def test_the_header_says_how_numbers_share_bytes() -> None:
    text = compiled(product("s4[N, K]")).emit("header")
    (line,) = (line for line in text.splitlines() if "w: s4[N, K] " in line)
    assert line.endswith("in, 16-byte aligned, bytes that hold two s4 each")
