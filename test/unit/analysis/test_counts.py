"""Operations and compulsory bytes, counted by hand."""

from __future__ import annotations

import pytest
from builders import kernel
from xdsl.dialects.builtin import ModuleOp

from mucc.analysis.counts import Polynomial, compulsory_bytes, flops, operations, term
from mucc.dialects.mu.ops.kernel import KernelOp
from mucc.library.signature import evaluate
from mucc.passes.decompose import Decompose

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


@pytest.mark.parametrize(
    ("expression", "special", "plain"),
    [("sin(x)", 1, 1), ("tan(x)", 3, 2), ("atan2(x, x)", 1, 8), ("floor(x)", 0, 1), ("x % 3", 1, 3)],
)
def test_functions_of_elements(expression: str, special: int, plain: int) -> None:
    found = counted(kernel(f"kernel k[N](x: f32[N]) -> f32[N] {{ return {expression} }}"))
    assert found == {unit: [[n, "N"]] for unit, n in (("special", special), ("fp32", plain)) if n}


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


def test_convolutions_count_what_windows_see() -> None:
    found = kernel(
        """kernel k[N](x: bf16[N, 8, 5], w: bf16[6, 4, 3], v: bf16[8, 3, 2])
            -> (y: bf16[N, 6, 3], z: bf16[N, 6, 8])
        { return conv(x, w, stride=2, pad=1, groups=2), conv_transpose(x, v, stride=2, pad=1, groups=2) }"""
    )
    # Places 0, 2 and 4 of five elements: the window sees 2, 3 and 2 of them.
    # Transposed, 2 * 5 products fall on 10 places, of which padding cuts off the first and the last.
    assert flops(found) == {"tensor.bf16": [[2 * 6 * 4 * 7, "N"], [2 * 8 * 3 * 8, "N"]]}


def test_windows_over_run_time_extents() -> None:
    found = kernel(
        "kernel k[N, H](x: f32[N, 8, H], w: f32[6, 8, 3]) -> f32[N, 6, H] { return conv(x, w, pad=1) }"
    )
    assert flops(found) == {"tensor.tf32": [[2 * 6 * 8 * 3, "N", "H"]]}


def test_attention_counts_both_products() -> None:
    mcu = """kernel k[B, M, N](q: f16[B, M, 64], k: f16[B, N, 64], v: f16[B, N, 32]) -> f16[B, M, 32]
        {{ return attention(q, k, v{}) }}"""
    full = {"tensor.f16": [[2 * 64, "B", "M", "N"], [2 * 32, "B", "M", "N"]]}
    assert flops(kernel(mcu.format(""))) == full
    assert flops(kernel(mcu.format(", causal=on"))) == full
    square = "kernel k[M](q: f16[M, 64]) -> f16[M, 64] { return attention(q, q, q, causal=on) }"
    polynomial = flops(kernel(square))["tensor.f16"]
    assert evaluate(polynomial, {"M": 5}) == 2 * 2 * 64 * (1 + 2 + 3 + 4 + 5)
    fixed = "kernel k(q: f16[5, 64], k: f16[3, 64]) -> f16[5, 64] { return attention(q, k, k, causal=on) }"
    assert evaluate(flops(kernel(fixed))["tensor.f16"], {}) == 2 * 2 * 64 * (1 + 2 + 3 + 3 + 3)


def test_masks_of_tensors_may_leave_a_column_for_each_row() -> None:
    mcu = """kernel k[M, N](q: f16[M, 64], k: f16[N, 64], v: f16[N, 64], a: s32[M], b: s32[N], c: f16[M, N])
        -> f16[M, 64] {{ return {} }}"""
    one = {"tensor.f16": [[2 * 64, "M"], [2 * 64, "M"]]}
    for mask in ("a[:, None] == b[None]", "where(a[:, None] > 0, c, -inf)"):
        assert flops(kernel(mcu.format(f"attention(q, k, v, mask={mask})"))) == one
    assert flops(kernel(mcu.format("attention(q, k, v, mask=c)"))) != one
    whole = kernel(mcu.format("attention(q, k, v, mask=a[:, None] == b[None])"))
    assert operations(whole.walk(), masked=True)["tensor.f16"] == [[2 * 64, "M", "N"], [2 * 64, "M", "N"]]


def counted(found: KernelOp) -> dict[str, Polynomial]:
    """The work of a kernel once composites are written out."""
    module = ModuleOp([found.clone()])
    Decompose().apply(None, module)
    return operations(module.walk())


def test_operations_of_other_units() -> None:
    found = kernel("kernel k[M](x: f32[M, 8]) -> f32[M, 8] { return softmax(x) }")
    # Maximum, difference, exponential, sum, quotient.
    assert evaluate(counted(found)["fp32"], {"M": 3}) == 3 * 8 * (1 + 1 + 1 + 1)
    assert evaluate(counted(found)["special"], {"M": 3}) == 3 * 8 * 2
    pooled = kernel("kernel k[N](x: f32[N, 4, 8]) -> f32[N, 4, 4] { return cumsum(max_pool(x, 2), axis=2) }")
    assert counted(pooled) == {"fp32": [[4 * 4 * 2, "N"], [4 * 4, "N"]]}
    overlapping = kernel("kernel k[N](x: f32[N, 4, 9]) -> f32[N, 4, 4] { return max_pool(x, 3, stride=2) }")
    assert counted(overlapping) == {"fp32": [[4 * 4 * 2, "N"]]}
    product = kernel("kernel k[M](x: bf16[M, M]) -> bf16[M, M] { return relu(x @ x) }")
    assert counted(product) == {"tensor.bf16": [[2, "M", "M", "M"]], "fp32": [[1, "M", "M"]]}
    causal = kernel("kernel k[M](q: f16[M, 64]) -> f16[M, 64] { return attention(q, q, q, causal=on) }")
    assert counted(causal)["special"] == [[1, "M", "M"]]
