"""Normalize kernels: what one computes, their IR, and their C++ run on the host against the interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import device_kernels, kernel_names, lowered
from on_host import Program, program_of, run

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.ops.stage import StageOp
from mucc.kernels.normalize.op import NormalizeKernelOp
from mucc.passes.pipeline import pipeline

KERNELS = """
kernel softmax_rows[B, L](x: f32[B, L]) -> f32[B, L] { return softmax(x) }
kernel log_rows[B, L](x: bf16[B, L]) -> f32[B, L] { return log_softmax(cast(x, f32)) }
kernel layer[B, L](x: bf16[B, L], w: bf16[L], b: f32[L]) -> (y: bf16[B, L], mean: f32[B], spread: f32[B]) {
  m = mean(x, axis=1)
  v = var(x, axis=1, correction=0)
  return (x - m[:, None]) * rsqrt(v + 1e-5)[:, None] * w + b, m, v
}
kernel residual[B, L](x: f16[B, L], r: f16[B, L], w: f32[L]) -> (y: f16[B, L], s: f16[B, L]) {
  s = x + r
  return rms_norm(s) * w, s
}
kernel quantised[B, L](x: bf16[B, L]) -> (q: s8[B, L], e: e4m3[B, L], scale: f32[B, 1]) {
  scale = amax(x, axis=1, keepdims=on) / 127 + 1
  return cast(x / scale, s8), cast(x / scale, e4m3), scale
}
kernel entropy[B, L](x: f32[B, L], i: s32[B]) -> f32[B] {
  return -take_along(log_softmax(x), i[:, None], axis=1)[:, 0]
}
kernel several[B, L](x: f32[B, L], y: f32[B, L]) -> (z: f32[B, L], low: f32[B]) {
  a = sum(x * y, axis=1, keepdims=on)
  b = max(x, axis=1, keepdims=on)
  c = min(x - b + a, axis=1, keepdims=on)
  return x * c - a + b, c[:, 0]
}
kernel whole_numbers[B, L](x: s32[B, L]) -> s32[B, L] {
  return x - max(x, axis=1, keepdims=on) + sum(x, axis=1, keepdims=on)
}
kernel turned[B, L](x: f32[B, L] col_major, r: f32[B]) -> f32[B, L] { return softmax(x * r[:, None], axis=1) }
kernel channels[B, L, D](x: bf16[B, L, D], w: f32[L]) -> bf16[B, L, D] {
  return softmax(x, axis=1) * w[:, None]
}
kernel batch[B, L, D](x: f32[B, L, D], w: f32[L]) -> (y: f32[B, L, D], most: f32[L]) {
  most = max(x, axis=(0, 2))
  return batch_norm(x) * w[:, None] + most[:, None], most
}
kernel outer[B, L, D](x: f32[B, L, D], b: f32[D]) -> (y: f32[B, L, D], z: f32[D]) {
  z = sum(x, axis=(0, 1)) + b
  return x - z, z
}
kernel groups[B, D](x: f32[B, 12, D, 3], w: f32[12], r: f32[B, 12, D, 3]) -> f32[B, 12, D, 3] {
  return relu(group_norm(x, 4) * w[:, None, None] + r) * 2
}
kernel table[B, L](t: f32[7, L], i: s32[B], w: f32[L]) -> f32[B, L] { return rms_norm(gather(t, i)) * w }
kernel grouped_work[B, L](x: f32[B, 12, L], g: f32[12], b: f32[12]) -> (y: f32[B, 12, L], n: f32[B, 12, L]) {
  n = group_norm(relu(x), 3)
  return silu(n * g[:, None] + b[:, None]) + n, n
}
kernel merged[B, L](x: f32[B, 3, L], w: f32[3*B, L]) -> f32[3*B, L] {
  y = reshape(softmax(x), (3*B, L))
  return where(y > 0.2, y, w)
}
kernel known(x: f32[6, 12, 5, 8], w: f32[12]) -> f32[6, 12, 5, 8] {
  return group_norm(x, 3) * w[:, None, None]
}
kernel known_columns(x: f32[3, 70, 6, 8]) -> (y: f32[3, 70, 6, 8], z: f32[3, 70, 6, 8]) {
  return softmax(x, axis=1), x - max(x, axis=(1, 2), keepdims=on)
}
kernel known_warps(x: f32[5, 512], y: f32[5, 512], b: f32[512]) -> f32[5, 512] {
  return softmax(x) + y * sum(x * y, axis=1, keepdims=on) + b
}
kernel known_part_warps(x: f32[5, 500], w: f32[500]) -> f32[5, 500] { return rms_norm(x) * w }
kernel known_two_warps(x: f32[5, 1024], w: f32[1024], b: f32[1024]) -> f32[5, 1024] {
  return layer_norm(x) * w + b
}
kernel known_pairs(x: bf16[2, 8192], w: f32[8192]) -> f32[2, 8192] { return rms_norm(cast(x, f32)) * w }
kernel known_halves(x: bf16[6, 1024]) -> f32[6, 1024] { return softmax(x) }
kernel known_block(x: f32[3, 2048], w: f32[2048]) -> f32[3, 2048] { return rms_norm(x) * w }
kernel known_part_block(x: f32[3, 2500], w: f32[2500]) -> (y: f32[3, 2500], s: f32[3]) {
  s = sum(x * w, axis=1)
  return softmax(x - s[:, None]), s
}
kernel known_long_block(x: bf16[2, 16384], w: bf16[16384], b: bf16[16384]) -> (y: f32[2, 16384]) {
  return layer_norm(cast(x, f32)) * w + b
}
kernel rounded_rows(x: bf16[6, 1024]) -> bf16[6, 1024] { return softmax(x * 3) }
kernel middle[B, L, D](x: f32[B, L, D]) -> (y: f32[B, L, D], m: f32[B, D]) {
  return layer_norm(x, axis=1), mean(x, axis=1)
}
kernel odd_warp(x: f32[8, 33]) -> f32[8, 33] { return softmax(x) }
kernel odd_lanes(x: f32[12, 5]) -> f32[12, 5] { return x - max(x, axis=1, keepdims=on) }
kernel odd_halves(x: bf16[16, 4099], r: bf16[16, 4099]) -> (y: bf16[16, 4099], m: f32[16]) {
  s = x + r
  return s / mean(abs(s), axis=1, keepdims=on), max(s, axis=1)
}
kernel odd_mixed(x: bf16[2, 4, 1023]) -> f32[2, 4, 1023] { return layer_norm(cast(x, f32)) }
kernel odd_block(x: f32[4, 9001], y: f32[4, 9001]) -> (z: f32[4, 9001], m: f32[4]) {
  s = sum(x * y, axis=1)
  return x - s[:, None] * y, s
}
kernel odd_team(x: f32[4, 30003]) -> f32[4, 30003] { return layer_norm(x) * 2 }
kernel odd_team_softmax(x: f32[4, 30005]) -> f32[4, 30005] { return log_softmax(x) }
kernel odd_team_loss(x: f32[4, 30007]) -> f32[4] { return logsumexp(x, axis=1) - max(x, axis=1) }
kernel odd_end(x: f32[3, 601]) -> f32[3, 601] { return softmax(x) }
kernel odd_weights(x: f32[4, 601], w: f32[601]) -> f32[4, 601] { return softmax(x) * w }
kernel square[L](x: f32[L, L], b: f32[L]) -> (y: f32[L, L], z: f32[L]) {
  m = max(x, axis=1)
  return x - m[:, None] + b, m + b
}
kernel square_products[L](x: f32[L, L]) -> (y: f32[L, L], z: f32[L, L]) {
  m = max(x, axis=1)
  return x - m[:, None], m[:, None] * m[None, :]
}
kernel one_leads[B, L](x: bf16[1, B, L], r: bf16[L]) -> (y: bf16[1, B, L], z: f32[B, L], m: f32[1, L]) {
  s = softmax(x) * r
  return s, min(s, axis=0), max(s, axis=1)
}
kernel one_between[B, L](x: bf16[B, 1, L], r: f32[B, L]) -> (y: f32[B, L], z: f32[B, L], m: f32[B]) {
  s = softmax(x)
  t = sum(s, axis=1)
  return t, t * r, max(s, axis=(1, 2))
}
kernel one_ends[B, L](x: f32[B, L, 1]) -> (y: f32[B, L], z: f32[B, L, 1], m: f32[B]) {
  s = x - max(x, axis=1, keepdims=on)
  return amax(s, axis=2), s, sum(x, axis=(1, 2))
}
"""
"""Every reduction, reduced axes anywhere, statistics as results, and values used in several places."""

ROWS = [
    (3, 1),
    (5, 4),
    (9, 64),
    (70, 9),
    (2, 136),
    (3, 601),
    (2, 1024),
    (2, 4096),
    (1, 9000),
    (1, 18000),
    (1, 33001),
]
COLUMNS = [(1, 1, 1), (2, 5, 3), (1, 130, 33), (2, 300, 64), (1, 1100, 8), (3, 40, 132), (2, 2100, 4)]


program = program_of(KERNELS)


@pytest.mark.parametrize("processors", [0, 4], ids=["wide strips", "narrow strips"])
def test_every_form_agrees_with_the_interpreter(program: Program, processors: int) -> None:
    program.library.on_host_sm_count(processors)
    # Long rows on few processors are those of blocks that share a row, below.
    rows = [shape for shape in ROWS if not processors or shape[1] <= 4096]
    left = ("odd_halves", "odd_block", "odd_team_softmax", "odd_team_loss") if processors else ()
    for info in (k for k in program.kernels if k.name not in left):
        free = set(info.dims)
        if not free:
            shapes = [{}]
        elif info.name.startswith("square"):
            shapes = [{"L": length} for length in (1, 7, 40)]
        elif info.name == "groups":
            shapes = [{"B": b, "D": d} for b, d in ((1, 1), (3, 5), (2, 64), (1, 700))]
        elif "D" in free:
            shapes = [dict(zip("BLD", shape, strict=True)) for shape in COLUMNS]
        else:
            shapes = [dict(zip("BL", shape, strict=True)) for shape in rows]
        for seed, dims in enumerate(shapes):
            run(program, info, dims, seed, within=0.01 if _is_rounded(info.name) else 2e-5)


def _is_rounded(name: str) -> bool:
    """Whether results of 16 bits are not exact."""
    return name in ("layer", "residual", "channels", "one_leads", "one_between", "rounded_rows")


FAR = """
kernel far[B, L](x: f32[B, L]) -> (y: f32[B, L], z: f32[B], p: f32[B, L]) {
  return layer_norm(x + 10000, eps=0.001), var(x + 10000, axis=1), softmax(x * 3 + 10000)
}
"""


def test_an_offset_does_not_cancel(tmp_path: Path) -> None:
    program = Program.of_text(FAR, tmp_path)
    for seed, shape in enumerate(((3, 7), (2, 1023), (1, 4097))):
        run(program, program.kernels[0], dict(zip("BL", shape, strict=True)), seed, within=2e-3)


@pytest.mark.parametrize(
    "special", [(1.0, float("inf")), (0.0, float("nan")), (1.0, -float("inf")), (-float("inf"),)]
)
def test_infinities_and_nan_go_as_in_the_interpreter(program: Program, special: tuple[float, ...]) -> None:
    program.library.on_host_sm_count(0)
    for info in program.kernels:
        if info.name in ("softmax_rows", "several", "entropy"):
            for length in (37, 64, 33001):
                run(program, info, {"B": 4, "L": length}, 1, special, within=1e-5)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return softmax(x)", ["normalize"]),
        ("return softmax(x, axis=0)", ["normalize"]),
        ("return softmax(layer_norm(x) * b + x)", ["normalize"]),
        ("return exp(x - logsumexp(x, axis=1, keepdims=on))", ["normalize"]),
        ("return softmax(x @ x)", ["gemm", "normalize"]),
        ("return layer_norm(x) @ x", ["normalize", "gemm"]),
        ("return relu(group_norm(x, 8) * b + x)", ["normalize"]),
        ("return softmax(softmax(x, axis=0), axis=1)", ["normalize", "normalize"]),
        ("return x + exp(sum(x * x, axis=0))", ["normalize"]),
        ("return (x @ x) + exp(sum(x * x, axis=0))", ["reduce", "gemm"]),
        ("return group_norm(x[:, :, None], 4)[:, :, 0]", ["normalize", "map"]),
        # A block cannot own what this reduces.
        ("return x / sum(x)", ["reduce", "map"]),
        # What is pinned is read from memory.
        ("stage m = max(x, axis=1) return x - m[:, None]", ["reduce", "map"]),
    ],
)
def test_what_one_kernel_computes(body: str, expected: list[str]) -> None:
    assert kernel_names(f"kernel k[M](x: f32[M, M], b: f32[M]) -> f32[M, M] {{ {body} }}") == expected


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("f32[N, 8, N, N]", ["reduce", "reduce", "map"]),
        ("f32[N, 64, N, N]", ["normalize"]),
        ("f32[4, 8, 16, 16]", ["normalize"]),
        ("f32[4, 8, 1024, 1024]", ["normalize"]),
        ("f32[4, 8, 4096, 4096]", ["reduce", "reduce", "map"]),
    ],
)
def test_few_rows_that_no_gpu_holds_are_left_to_several_kernels(type: str, expected: list[str]) -> None:
    dims = "[N]" if "N" in type else ""
    assert kernel_names(f"kernel k{dims}(x: {type}) -> {type} {{ return batch_norm(x) }}") == expected


def test_what_others_read_too_is_stored_where_it_is_computed() -> None:
    (kernel,) = device_kernels(
        "kernel k[M, N](x: bf16[M, N], r: bf16[M, N]) -> (y: bf16[M, N], s: bf16[M, N])"
        " { s = x + r return rms_norm(s), s }"
    )
    assert isinstance(kernel, NormalizeKernelOp) and len(kernel.stores) == 2


def test_a_softmax_is_one_stage_with_two_reductions() -> None:
    module = lowered("kernel k[M, N](x: f32[M, N]) -> f32[M, N] { return softmax(x) }")
    for step, _ in pipeline("sm_90a"):
        step.apply(None, module)
        if any(isinstance(op, StageOp) for op in module.walk()):
            break
    (stage,) = (op for op in module.walk() if isinstance(op, StageOp))
    assert sum(op.name == "mu.reduce" for op in stage.body.block.ops) == 2


LONG = """
kernel softmax_long[B, L](x: f32[B, L]) -> f32[B, L] { return softmax(x) }
kernel layer_long[B, L](x: bf16[B, L], w: bf16[L], b: f32[L]) -> (y: f32[B, L], m: f32[B], v: f32[B]) {
  m = mean(x, axis=1)
  v = var(x, axis=1, correction=0)
  return (x - m[:, None]) * rsqrt(v + 1e-5)[:, None] * w + b, m, v
}
kernel several_long[B, L](x: f32[B, L], y: f32[B, L]) -> (z: f32[B, L], low: f32[B]) {
  a = sum(x * y, axis=1, keepdims=on)
  b = max(x, axis=1, keepdims=on)
  c = min(x - b + a, axis=1, keepdims=on)
  return x * c - a + b, c[:, 0]
}
kernel statistics_long[B, L](x: f32[B, L]) -> (v: f32[B], n: f32[B]) {
  n = sum(x * x, axis=1)
  return var(x, axis=1), n
}
kernel batch_long[B, C, L](x: f32[B, C, L], w: f32[C]) -> (y: f32[B, C, L], most: f32[C]) {
  most = max(x, axis=(0, 2))
  return batch_norm(x) * w[:, None] + most[:, None], most
}
"""

long_rows = program_of(LONG)


HELD = {
    "read again": (1, 2, 40_000),  # what two blocks reserve
    "partly held": (4, 40, 40_000),
    "held": (1, 228, 57_348),
    "held by many": (4, 228, 57_348),
}
"""Processors, kilobytes of shared memory each, and the length of the longest row."""


@pytest.mark.parametrize(("processors", "kilobytes", "longest"), HELD.values(), ids=HELD)
def test_blocks_that_share_a_row_agree_with_the_interpreter(
    long_rows: Program, processors: int, kilobytes: int, longest: int
) -> None:
    long_rows.library.on_host_sm_count(processors)
    long_rows.library.on_host_sm_shared(kilobytes * 1024)
    for info in long_rows.kernels:
        for seed, (rows, length) in enumerate(((1, 33001), (5, 19000), (2, longest), (9, 8193))):
            dims = {"B": rows, "L": length}
            if info.name == "batch_long":
                dims = {"B": 3, "C": rows, "L": length // 3}
            run(long_rows, info, dims, seed, within=2e-4)


@pytest.mark.parametrize(
    ("dtype", "special"),
    [("bf16", (1.0, 3e38, -3e38)), ("bf16", (-float("inf"),)), ("f16", (1.0, float("nan")))],
)
def test_a_short_exponential_keeps_infinities(dtype: str, special: tuple[float, ...], tmp_path: Path) -> None:
    text = f"kernel k(x: {dtype}[4, 512]) -> {dtype}[4, 512] {{ return softmax(x) }}"
    program = Program.of_text(text, tmp_path)
    run(program, program.kernels[0], {}, 1, special, within=0.01)


def test_results_of_16_bits_take_the_short_exponential() -> None:
    def text_of(body: str, result: str = "bf16[8, 512]") -> str:
        kernel = f"kernel k(x: bf16[8, 512]) -> {result} {{ return {body} }}"
        return compile_text(Source("k.mcu", kernel), Options(target="sm_90a")).cu()

    assert "mucc::fast_exp(" in text_of("softmax(x)") and "mucc::div(" not in text_of("softmax(x)")
    assert "mucc::fast_exp(" not in text_of("softmax(x)", "f32[8, 512]")
    # Exponentials of other values may be large, and other quotients may need scaling.
    assert "mucc::fast_exp(" not in text_of("exp(x) / sum(exp(x), axis=1, keepdims=on)")
    assert "mucc::div(" in text_of("exp(x) / sum(exp(x), axis=1, keepdims=on)")


def test_few_rows_load_weights_at_once() -> None:
    def text_of(rows: int, length: int = 1024) -> str:
        rows_type = f"bf16[{rows}, {length}]"
        kernel = f"kernel k(x: {rows_type}, w: bf16[{length}]) -> {rows_type} {{ return rms_norm(x) * w }}"
        return compile_text(Source("k.mcu", kernel), Options(target="sm_90a")).cu()

    assert "loads.w_v = mucc::load<V>(w, p);" in text_of(2048) and "loads.w_v" not in text_of(4096)
    # Threads of long rows have 32 numbers: weights do not fit beside them.
    assert "loads.w_v" in text_of(512, 4096) and "loads.w_v" not in text_of(128, 8192)


@pytest.mark.parametrize(
    ("body", "dtype", "pairs"),
    [
        ("rms_norm(x) * 2", "bf16", "true"),
        ("rms_norm(x) * 2", "f16", "false"),
        ("rms_norm(gelu(x))", "bf16", "false"),
        ("rms_norm(x + y)", "bf16", "false"),
    ],
)
def test_long_rows_of_pairs_take_the_steps_of_the_launch(body: str, dtype: str, pairs: str) -> None:
    type = f"{dtype}[64, 16384]"
    kernel = f"kernel k(x: {type}, y: {type}) -> {type} {{ return {body} }}"
    text = compile_text(Source("k.mcu", kernel), Options(target="sm_90a")).cu()
    assert f"kPairs = {pairs};" in text


TALL = """
kernel tall[B, L](x: f32[B, L], w: f32[L]) -> (y: f32[B, L], m: f32[L]) {
  return batch_norm(x) * w, mean(x, axis=0)
}
kernel tall_halves[B, L](x: bf16[B, L]) -> f32[B, L] { return softmax(cast(x, f32), axis=0) }
"""


def test_clusters_share_tall_columns(tmp_path: Path) -> None:
    program = Program.of_text(TALL, tmp_path)
    tall, halves = program.kernels
    program.library.on_host_sm_count(132)
    run(program, tall, {"B": 8195, "L": 4}, 1, within=1e-4, align=16)
    run(program, halves, {"B": 4099, "L": 8}, 2, within=1e-4, align=16)
    assert "columns_cluster" in program.compilation.cu()
    older = compile_text(Source("k.mcu", TALL), Options(target="sm_80"))
    assert "columns_cluster" not in older.cu()
