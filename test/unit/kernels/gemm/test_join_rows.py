"""Norms of rows within one tile of a product: part of its kernel, with the same meaning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from on_host import Program, run

from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.diagnostics import Source
from mucc.library.signature import Manifest
from mucc.measure.run import run_on_cpu

SIZES = {"M": 5, "K": 8}
HEAD = (
    "kernel f[M, K](x: {dtype}[M, K], w: {dtype}[{n}, K], b: f32[{n}], g: f32[{n}], c: f32[{n}], "
    "r: f32[M, {n}], s: f32) -> {dtype}[M, {n}]\n    where K % 8 == 0\n{{\n"
    "    h = x @ w.T\n    return {body}\n}}\n"
)

JOINED = {
    "group_norm(h + b, 4) * g + c": 64,
    "silu(group_norm(silu(h) + b, 2) * g) * s": 128,
    "softmax(h * s, axis=1)": 64,
    "log_softmax(h + b, axis=1)": 256,
    "layer_norm(h + r) * g + c": 32,
    "rms_norm(h) * g": 192,
    "group_norm(h, 32)": 64,
    "h / max(abs(h), axis=1, keepdims=on)": 128,
    "h - min(h, axis=1, keepdims=on)": 64,
}
"""Results of 32 to 256 columns, by their width: with vectors, numbers, a matrix, and several reductions."""

APART = {
    "layer_norm(h)": 512,
    "softmax(h, axis=0)": 64,
    "layer_norm(h + r) * g": 64,
    "group_norm(h, 4)": 80,
    "group_norm(h + r, 8)": 192,
    "group_norm(h, 2) + sum(h, axis=1, keepdims=on)": 64,
}
"""Rows that are longer than a tile, columns, wide groups with a matrix, groups of 20, further readers."""


def compiled(
    body: str, columns: int, dtype: str = "f32", schedule: str = "", target: str = "sm_90a"
) -> Compilation:
    text = HEAD.format(dtype=dtype, n=columns, body=body) + schedule
    return compile_text(Source("t.mcu", text), Options(target=target))


def kernels(compilation: Compilation) -> list[str]:
    (program,) = compilation.programs
    return [kernel.name.removeprefix("cutlass.") for kernel in program.kernels]


def agrees(compilation: Compilation, columns: int, offset: float = 0.0) -> None:
    """Compare the program's meaning with that of its kernels."""
    rng = np.random.default_rng(columns)
    m, k = SIZES.values()
    shapes = [(m, k), (columns, k), (columns,), (columns,), (columns,), (m, columns), ()]
    inputs = [rng.standard_normal(shape) for shape in shapes]
    inputs[2] = inputs[2] + offset
    (meant,), (got,) = compilation.interpret("f", inputs), compilation.interpret_lowered("f", inputs)
    np.testing.assert_allclose(got, meant, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("body", JOINED)
def test_rows_within_a_tile_are_part_of_the_product(body: str) -> None:
    made = compiled(body, JOINED[body])
    assert kernels(made) == ["gemm"]
    agrees(made, JOINED[body])


def test_results_of_16_bits_join_and_offsets_do_not_cancel() -> None:
    agrees(compiled("layer_norm(h + b) * g", 64), 64, offset=1e4)
    assert kernels(compiled("group_norm(h + b, 2) * g + c", 64, "bf16")) == ["gemm"]


@pytest.mark.parametrize(
    "body",
    (
        "group_norm(h, 2) * g",
        "group_norm(group_norm(h, 4), 2)",
        "h * min(h, axis=1, keepdims=on)",
        "softmax(cast(-h, bf16), axis=1)",
        "group_norm(cast(group_norm(h, 4) + b, bf16), 2)",
    ),
)
def test_joined_kernels_round_what_the_program_rounds_alone(body: str) -> None:
    made = compiled(body, 256, "bf16")
    assert kernels(made) == ["gemm"] and made.programs[0].unstored
    (info,) = Manifest.parse(made.manifest).kernels
    report = run_on_cpu(made, info, {"M": 9, "K": 16}, 1, lambda _: None)
    assert all(verdict.good and verdict.beyond == 0 for verdict in report.verdicts)


@pytest.mark.parametrize("body", APART)
def test_other_rows_are_kernels_of_their_own(body: str) -> None:
    made = compiled(body, APART[body])
    assert len(kernels(made)) > 1
    assert "group_reduce" not in str(made.cutlass)
    agrees(made, APART[body])


def test_a_norm_of_all_elements_of_a_product_is_a_kernel_of_its_own() -> None:
    text = "kernel f(x: f32[4, 16], w: f32[16, 16]) -> f32[64] { return softmax(reshape(x @ w.T, (64,))) }"
    made = compile_text(Source("t.mcu", text))
    assert kernels(made) == ["gemm", "normalize"]
    report = run_on_cpu(made, Manifest.parse(made.manifest).kernels[0], {}, 1, print)
    assert all(v.good for v in report.verdicts)


SCHEDULES = {
    "tile = 128x32x32": False,
    "exchange = on": False,
    "mainloop = multistage": False,
    "scheduler = split_k(2)": False,
    "tile = 128x128x32 mainloop = pingpong": True,
}


@pytest.mark.parametrize("settings", SCHEDULES)
def test_schedules_are_kept(settings: str) -> None:
    made = compiled("group_norm(h, 2)", 128, schedule=f"schedule f for sm_90a {{ {settings} }}\n")
    assert (len(kernels(made)) == 1) is SCHEDULES[settings]


def test_other_targets_and_small_products_are_two_kernels() -> None:
    assert len(kernels(compiled("layer_norm(h)", 64, target="sm_80"))) == 2
    text = "kernel f(x: f32[{0}, 256], w: f32[128, 256]) -> f32[{0}, 128] {{ return layer_norm(x @ w.T) }}"
    counts = [len(kernels(compile_text(Source("t.mcu", text.format(m))))) for m in (32, 1024, 65536)]
    assert counts == [2, 2, 1]
    text = "kernel f[M](x: f32[M, 256], w: f32[128, 256]) -> f32[M, 128] { return layer_norm(x @ w.T) }"
    found = [compile_text(Source("t.mcu", text), Options(dims={"M": m})) for m in (8, 65536)]
    assert [len(kernels(made)) for made in found] == [2, 1]


def test_a_stage_that_is_named_is_stored() -> None:
    text = (
        "kernel f[M](x: f32[M, 64], w: f32[64, 64]) -> f32[M, 64] {\n"
        "    stage h = x @ w.T\n    return softmax(h, axis=1)\n}\n"
    )
    assert len(kernels(compile_text(Source("t.mcu", text)))) == 2


LOGSUMEXP = (
    "kernel f[M](x: f32[M, 16], w: f32[{n}, 16], b: f32[{n}]) -> f32[M] {{ return logsumexp({of}, axis=1) }}"
)


@pytest.mark.parametrize("of", ("x @ w.T + b", "relu(x @ w.T) * 3"))
def test_a_logsumexp_of_long_rows_stores_one_number_for_each_part(of: str) -> None:
    made = compile_text(Source("t.mcu", LOGSUMEXP.format(n=640, of=of)))
    assert "f32[M, 640]" not in str(made.cutlass).partition("cutlass.gemm")[0]
    assert "group_store" in str(made.cutlass)
    rng = np.random.default_rng(7)
    x, w, b = rng.standard_normal((5, 16)), rng.standard_normal((640, 16)), rng.standard_normal(640)
    x[1], b[:128] = x[1] * 1e4, -np.inf
    (meant,), (got,) = made.interpret("f", [x, w, b]), made.interpret_lowered("f", [x, w, b])
    np.testing.assert_allclose(got, meant, rtol=1e-5)


@pytest.mark.parametrize("of", ("clamp(x @ w.T, -9, 9)", "x @ w[:600].T", "x + 0 * x"))
def test_other_logsumexps_are_not_divided(of: str) -> None:
    assert "group_store" not in str(compile_text(Source("t.mcu", LOGSUMEXP.format(n=640, of=of))).cutlass)


REDUCED = {
    "min(x @ w.T + b, axis=1) * 2": True,
    "prod(1 + x @ w.T / 100, axis=1)": True,
    "min(group_norm(x @ w.T, 20) * b, axis=1, keepdims=on)[:, 0]": True,
    "min(x @ w.T, axis=1) + max(x, axis=1)": True,
    "min(x @ w.T + x[:, :1], axis=1)": True,
    "argmin(x @ w.T, axis=1)": False,
}
"""Reductions of 640 columns, and whether the product is not stored."""


@pytest.mark.parametrize("body", REDUCED)
def test_reductions_without_atomics_begin_in_the_product(body: str) -> None:
    result = "s32[M]" if "arg" in body else "f32[M]"
    text = f"kernel f[M](x: f32[M, 16], w: f32[640, 16], b: f32[640]) -> {result} {{ return {body} }}"
    made = compile_text(Source("t.mcu", text))
    assert ("workspace slot 0 : i64 : !mu.tensor<[M, 640], f32>" not in str(made.cutlass)) is REDUCED[body]
    rng = np.random.default_rng(3)
    x, w, b = rng.standard_normal((6, 16)), rng.standard_normal((640, 16)), rng.standard_normal(640)
    (meant,), (got,) = made.interpret("f", [x, w, b]), made.interpret_lowered("f", [x, w, b])
    np.testing.assert_allclose(got, meant, rtol=1e-3, atol=1e-30)


ON_HOST = """
kernel grouped[M](x: bf16[M, 16], w: bf16[128, 16], b: f32[128], g: f32[128], s: f32) -> f32[M, 128] {
    return group_norm(silu(x @ w.T + b), 2) * g + s
}
kernel short[M](x: f32[M, 16], w: f32[16, 32], r: f32[M, 32]) -> f32[M, 32] {
    return softmax(cast(x @ w, f16) + r, axis=1)
}
kernel least[M](x: bf16[M, 16], w: bf16[128, 16], b: f32[128]) -> f32[M] {
    return min(group_norm(x @ w.T, 2) * b, axis=1)
}
kernel parts[M](x: bf16[M, 16], w: bf16[320, 16], b: f32[320]) -> f32[M] {
    return logsumexp(x @ w.T + b, axis=1)
}
"""


def test_libraries_hand_over_what_the_epilogue_reads_and_stores(tmp_path: Path) -> None:
    program = Program.of_text(ON_HOST, tmp_path)
    for info in program.kernels:
        run(program, info, {"M": 70}, 1, within=1e-3, align=16)
