"""Operations and compulsory bytes, counted by hand."""

from __future__ import annotations

import pytest
from builders import kernel

from mucc.analysis.counts import compulsory_bytes, flops, term
from mucc.signature import evaluate

SIZES = {"B": 3, "M": 16, "N": 32, "K": 64}


def test_terms() -> None:
    assert term(2, ("M", 8, "N", 4)) == [64, "M", "N"]
    assert term(4, ()) == [4]


def test_evaluation() -> None:
    assert evaluate([[2, "M", "N"], [3], [1, "M", "M"]], {"M": 4, "N": 5}) == 2 * 20 + 3 + 16
    assert evaluate([], {}) == 0
    with pytest.raises(KeyError):
        evaluate([[2, "M"]], {"N": 1})


def test_a_product() -> None:
    found = kernel(
        "kernel k[M, N, K](x: bf16[M, K], w: bf16[N, K], b: f32[N]) -> bf16[M, N] { return x @ w.T + b }"
    )
    assert flops(found) == {"tensor.bf16": [[2, "M", "N", "K"]]}
    assert compulsory_bytes(found) == [[2, "M", "K"], [2, "N", "K"], [4, "N"], [2, "M", "N"]]
    assert evaluate(flops(found)["tensor.bf16"], SIZES) == 2 * 16 * 32 * 64


def test_products_by_format_and_batch() -> None:
    found = kernel(
        """kernel k[B, M, K=64](x: f32[B, M, K], w: f32[K, 8], v: f16[8, 8]) -> f16[B, M, 8] {
            return cast(x @ w, f16) @ v @ v
        }"""
    )
    assert flops(found) == {
        "tensor.tf32": [[2 * 8 * 64, "B", "M"]],
        "tensor.f16": [[2 * 8 * 8, "B", "M"], [2 * 8 * 8, "B", "M"]],
    }


def test_products_of_f32_by_arithmetic() -> None:
    found = kernel(
        """kernel k[M, N, K](x: f32[M, K], w: f32[K, N]) -> (a: f32[M, N], b: f32[M, N]) {
            return matmul(x, w, compute=tf32x3), matmul(x, w, compute=f32)
        }"""
    )
    assert flops(found) == {"tensor.tf32": [[6, "M", "N", "K"]], "fp32": [[2, "M", "N", "K"]]}


def test_what_is_not_used_is_not_read() -> None:
    found = kernel(
        "kernel k[M](x: f32[M], y: f32[M], s: f32) -> (a: f32[M], b: f32[]) { return x * s, amax(x) }"
    )
    assert flops(found) == {}
    assert compulsory_bytes(found) == [[4, "M"], [4, "M"], [4]]


def test_the_counts_do_not_depend_on_the_stages() -> None:
    mcu = "kernel k[M](x: bf16[M, M]) -> bf16[M, M] { stage h = relu(x @ x) return relu(h @ x) + h }"
    passes = ("mu-canonicalize", "decompose", "form-stages")
    assert flops(kernel(mcu)) == flops(kernel(mcu, *passes))
    assert compulsory_bytes(kernel(mcu)) == compulsory_bytes(kernel(mcu, *passes))
