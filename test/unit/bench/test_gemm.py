"""The benchmark of contractions: its programs compile, its figures follow from its rows."""

import math
from dataclasses import replace
from typing import Any

import pytest

import mucc
from bench.gemm import summary
from bench.gemm.cases import CASES
from bench.gemm.libraries import skeletons
from bench.gemm.shapes import PLAIN
from mucc.kernels.gemm.scheduling.config import Schedule


@pytest.mark.parametrize("name", CASES)
def test_every_program_is_accepted(name: str):
    case = CASES[name]
    assert f"kernel {name}[M, N" in case.program
    for shape in case.shapes[:1]:
        assert not mucc.check(case.program, dims={"M": shape.m, "N": shape.n, "K": shape.k})


def test_enough_plain_shapes_without_doubles():
    assert len({s.name for s in PLAIN}) == len(PLAIN) >= 30


def row(case: str, group: str, shape: str, **ms: float) -> dict[str, Any]:
    return {
        "case": case,
        "group": group,
        "rate": "bf16",
        "shape": shape,
        "flop": 1e12,
        "bytes": 1e9,
        "error": 1e-3,
        **{f"{k}_ms": v for k, v in ms.items()},
    }


def test_figures():
    rows = [
        row("bf16", "plain", "8192x8192x8192", tuned=2.0, default=2.5, eager=1.8),
        row("bf16", "plain", "512x512x512", tuned=1.0, default=1.0, eager=1.6),
        row("skinny_bf16", "skinny", "1x4096x4096", tuned=0.5, default=0.5, eager=1.0) | {"flop": 1e9},
        row("gated", "fused", "4096x4096x4096", tuned=1.0, default=1.0, eager=4.0, compile=1.21),
        row("residual", "fused", "4096x4096x4096", tuned=1.0, default=1.0, eager=1.0, compile=1.0),
    ]
    found = summary.figures(rows, {"bf16": 1e15}, 4e12)
    assert found["gemm.bf16.tuned_over_cublas_geomean"] == pytest.approx(math.sqrt(0.9 * 1.6))
    assert found["gemm.bf16.tuned_over_cublas_min"] == pytest.approx(0.9)
    assert found["gemm.bf16.default_over_tuned_min"] == pytest.approx(0.8)
    assert found["gemm.bf16.of_ceiling_8192"] == pytest.approx(0.5)
    assert found["gemm.skinny_bf16.of_copy_min"] == pytest.approx(0.5)
    assert found["fused.tuned_over_eager_geomean"] == pytest.approx(2.0)
    assert found["fused.tuned_over_compile_geomean"] == pytest.approx(1.1)
    assert "gemm.bf16.tuned_over_compile_geomean" not in found
    slow = summary.figures(rows[:1], {"bf16": 1e14}, 4e12)
    assert slow["gemm.bf16.ceiling_flops"] == pytest.approx(1e12 / 1.8e-3), "somebody was faster"
    assert len(summary.table(rows).splitlines()) == 1 + len(rows)


def test_skeletons_serve_every_size():
    a, b, c = (Schedule((m, 128, 64)) for m in (64, 128, 256))
    lists = [{a: 1.0, b: 1.01, c: 1.3}, {a: 1.5, b: 1.4, c: 1.0}, {a: 1.0, b: 1.01}]
    assert skeletons(lists, 2) == {a, c}, "b is good only where a is better"
    assert skeletons(lists, 9) == {a, b, c}
    variant = replace(a, swizzle=4)
    assert skeletons([{a: 1.0, variant: 0.9}], 1) == {a}, "a variant is no skeleton of its own"
