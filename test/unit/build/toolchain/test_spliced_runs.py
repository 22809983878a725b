"""Spliced PTX computes what PTX in one piece does: both run on the host, in several orders of threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from ptx_host import Machine, Spliced, compare

from mucc.build.toolchain import nvrtc

pytestmark = pytest.mark.skipif(bool(nvrtc.why_unusable("13.0")), reason="needs NVRTC")

NORM = """
kernel k[M, N](x: bf16[M, N], g: bf16[N], b: bf16[N]) -> bf16[M, N] { return gelu(layer_norm(x) * g + b) }
"""
SUMS = (
    "kernel k[M, N](x: f32[M, N]) -> (s: f32[M], l: f32[M]) { return sum(silu(x), axis=1), max(x, axis=1) }\n"
)
SCAN = "kernel k[M, N](x: f32[M, N]) -> f32[M, N] { return gelu(cumsum(silu(x), axis=1, reverse=on)) }\n"
LAYER = """
kernel k[M, N](x: f32[M, 4, N, 5], w: f32[4, 1, 3, 3], b: f32[4]) -> f32[M, 4, N, 5] {
  return silu(conv(x, w, pad=1, groups=4) + b[:, None, None])
}
"""
LOSS = """
kernel k[M, N](x: bf16[M, N], i: s32[M]) -> f32[M] {
  return -take_along(log_softmax(cast(x, f32)), i[:, None], axis=1)[:, 0]
}
"""
POWERS = """
kernel k[M, N](x: f32[M, N], g: f32[N]) -> (y: f32[M, N], z: bf16[M, N]) {
  y = pow(abs(rms_norm(x)) + 0.5, 1.3) * g
  return y, cast(sin(y * 1000), bf16)
}
"""
SOFTMAX = "kernel k[M, N](x: bf16[M, N]) -> (y: bf16[M, N]) { return softmax(gelu(x)) }\n"

ROUNDED = 2e-6
"""How far sums differ: in one piece the last product of a body is fused with the sum, spliced it is not."""

SHORT = ((1, 1), (3, 4), (70, 7), (2, 64), (3, 601))
LONG = (*SHORT, (300, 8), (9, 128), (3, 600), (2, 1024), (3, 4097), (2, 9000), (2, 16384), (1, 20001))


def differences(
    text: str, shapes: tuple[tuple[int, int], ...], folder: Path, processors: int = 0
) -> tuple[Spliced, list[float]]:
    """Compare both forms of a program, and one with the interpreter; returns how the forms differ."""
    program = Spliced.of_text(text, folder)
    program.library.on_host_sm_count(processors)
    found: list[float] = []
    for seed, (m, n) in enumerate(shapes):
        for align in (1, 16):
            for difference in compare(program, program.kernels[0], {"M": m, "N": n}, seed, align):
                assert difference.meaning < 0.01, difference
                found.append(difference.spliced)
    return program, found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NORM, id="norm"),
        pytest.param(SUMS, id="reductions"),
        pytest.param(SCAN, id="scan"),
        pytest.param(LAYER, id="convolution"),
    ],
)
def test_both_forms_leave_the_same_bits(text: str, tmp_path: Path) -> None:
    program, found = differences(text, SHORT, tmp_path)
    assert program.has_spliced and not any(found)


@pytest.mark.long
@pytest.mark.parametrize("processors", [0, 4])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name)
        for name, text in (
            ("norm", NORM),
            ("reductions", SUMS),
            ("scan", SCAN),
            ("loss", LOSS),
            ("powers", POWERS),
            ("softmax", SOFTMAX),
        )
    ],
)
def test_all_kernels_agree(text: str, processors: int, tmp_path: Path) -> None:
    _, found = differences(text, LONG, tmp_path, processors)
    assert max(found) <= (ROUNDED if text == SUMS else 0)


def test_a_fault_in_splicing_is_found(tmp_path: Path) -> None:
    program = Spliced.of_text(SUMS, tmp_path)
    (module,) = program.spliced
    faulty = module.replace("add.f32 %mu_", "sub.f32 %mu_")
    assert faulty != module
    program.machine.load(1, faulty)
    found = compare(program, program.kernels[0], {"M": 3, "N": 64}, 1)
    assert found[0].spliced > 0.01 and found[1].spliced == 0


ENTRY = """
.version 9.0
.target sm_90a
.address_size 64

.visible .entry k(.param .u64 k_param_0)
{{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	.reg .pred %p<2>;
	.shared .align 4 .b8 words[128];
	ld.param.u64 %rd1, [k_param_0];
	{0}
	ret;
}}
"""


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("frobnicate.b32 %r1, %r2;", "'frobnicate.b32' is not known"),
        ("ld.global.u32 %r1, [%rd1+2];", "not aligned to 4"),
        ("ld.shared.u32 %r1, [words+4096];", "shared memory has no 4 bytes at 4096"),
        (
            "mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 0; @%p1 bra $A; bar.sync 0; $A: bar.sync 1;",
            "wait for each other",
        ),
        ("shfl.sync.idx.b32 %r2, %r1, 0, 31, 1;", "not in its own mask"),
    ],
)
def test_what_a_gpu_does_not_allow_is_reported(code: str, wrong: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert wrong in machine.report(ENTRY.format(code), "k", 64)
    assert machine.report(ENTRY.format("ld.global.u32 %r1, [%rd1+4];"), "k", 64) == ""
