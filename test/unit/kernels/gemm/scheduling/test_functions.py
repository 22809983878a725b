"""What functions in epilogues cost: against measured kernels, and in the choice of schedules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.kernels.gemm.description import problem_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand
from mucc.target.devices import get_card

SM90 = gemm_target("sm_90a")
H100 = get_card("h100_sxm").device
GELU = Epilogue(2, row_broadcasts=(2,), instructions=15)

Kernel = tuple[int, int, int, Schedule, int]


def kernel(
    m: int, n: int, k: int, tile: tuple[int, int], loop: str, count: int, cluster: tuple[int, int] = (1, 2)
) -> Kernel:
    return m, n, k, Schedule((*tile, 64), cluster, loop, "persistent"), count


MEASURED: dict[str, tuple[float, tuple[Kernel, ...]]] = {
    "ConvNeXt-B, batch 32": (
        686.9e-6,
        (
            kernel(100352, 512, 128, (192, 128), "pingpong", 3),
            kernel(25088, 1024, 256, (192, 128), "pingpong", 3),
            kernel(6272, 2048, 512, (192, 128), "pingpong", 3),
            kernel(1568, 4096, 1024, (128, 144), "pingpong", 3),
        ),
    ),
    "Swin-V2, batch 10": (
        167.2e-6,
        (
            kernel(31360, 384, 96, (192, 128), "pingpong", 2, (2, 1)),
            kernel(7840, 768, 192, (192, 128), "pingpong", 2),
            kernel(1960, 1536, 384, (128, 192), "cooperative", 6),
            kernel(490, 3072, 768, (128, 96), "cooperative", 2, (2, 1)),
        ),
    ),
}
"""Seconds of all linear layers with gelu in a network, bf16 on an H100, and the kernels that they ran as."""


def problem(m: int, n: int, k: int, epilogue: Epilogue) -> Problem:
    return Problem("bf16", Operand(), Operand(), epilogue, m, n, k)


@pytest.mark.parametrize(("seconds", "kernels"), MEASURED.values(), ids=MEASURED)
def test_gelu_behind_linear_layers_takes_what_was_measured(seconds: float, kernels: tuple[Kernel, ...]):
    launch = SM90.facts.cost["launch"]
    found = sum(
        count * (SM90.estimate(problem(m, n, k, GELU), schedule, H100).seconds - launch)
        for m, n, k, schedule, count in kernels
    )
    assert found == pytest.approx(seconds, rel=0.05)


def test_both_warpgroups_of_a_tile_compute_its_functions():
    short = problem(100352, 512, 128, GELU)
    assert SM90.default_schedule(short, {}).mainloop == "cooperative"
    assert (
        SM90.default_schedule(short._replace(epilogue=replace(GELU, instructions=0)), {}).mainloop
        == "pingpong"
    )


@pytest.mark.parametrize(
    ("body", "instructions"),
    [
        ("x @ w.T + b", 0),
        ("gelu(x @ w.T + b)", 15),
        ("gelu(x @ w.T, approximate=tanh) * sigmoid(b)", 15),
        ("silu(x @ w.T)", 0),
        ("(x @ w.T) / 3", 0),
    ],
)
def test_instructions_of_programs(body: str, instructions: int):
    text = f"kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K], b: bf16[N]) -> bf16[M, N] {{ return {body} }}"
    (gemm,) = (op for op in compile_text(Source("t.mcu", text)).cutlass.walk() if isinstance(op, GemmOp))
    assert problem_of(gemm).epilogue.instructions == instructions
