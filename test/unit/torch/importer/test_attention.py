"""Attention of PyTorch's backends: its log-sum-exp, and gradients."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from importerlib import Applied, agrees  # noqa: E402

from mucc.compiler.driver import compile_text  # noqa: E402
from mucc.diagnostics.core import Source  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402

aten = torch.ops.aten


def _tensors(heads: int) -> tuple[Any, ...]:
    torch.manual_seed(1)
    return tuple(torch.randn(2, n, m, 8) for n, m in ((4, 5), (heads, 7), (heads, 7)))


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_attention(causal: bool, mask: bool):
    q, k, v = _tensors(4)
    bias = torch.randn(5, 7) if mask and not causal else None
    y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=bias)
    more = () if bias is None else (bias,)

    def gradients(dy: Any, q: Any, k: Any, v: Any, y: Any, sums: Any, *masks: Any) -> Any:
        return aten._scaled_dot_product_flash_attention_for_cpu_backward(
            dy, q, k, v, y, sums, 0.0, causal, attn_mask=masks[0] if masks else None
        )

    inputs = (torch.randn_like(y), q, k, v, y, sums.contiguous(), *more)
    made = from_torch(Applied(gradients), inputs, whole=True)
    text = made.program.text()
    assert all(f"attention_d{x}(" in text for x in "qkv")
    agrees(made, *inputs)


def test_documents_are_labels_of_one_kernel():
    q, k, v = _tensors(4)
    segments = torch.arange(7, dtype=torch.int32).div(3, rounding_mode="floor").expand(2, 7).contiguous()

    def packed(q: Any, k: Any, v: Any, segments: Any) -> Any:
        mask = segments[:, None, :5, None] == segments[:, None, None]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    inputs = (q.half(), k.half(), v.half(), segments)
    made = from_torch(Applied(packed), inputs, whole=True)
    compiled = compile_text(Source("k.mcu", made.program.text()))
    assert " labels %" in str(compiled.cutlass)
    agrees(made, *inputs)


def test_the_gradient_of_a_learned_bias_is_the_kernels():
    """PyTorch's operation runs on GPUs only, so the program is compared with autograd."""
    torch.manual_seed(1)
    q, k, v, dy = (torch.randn(2, 4, n, 8, dtype=torch.float64) for n in (5, 7, 7, 5))
    bias = torch.randn(2, 4, 5, 7, dtype=torch.float64)
    scores = q @ k.mT / 8**0.5 + bias
    sums, y = scores.logsumexp(-1), scores.softmax(-1) @ v

    def gradients(dy: Any, q: Any, k: Any, v: Any, bias: Any, y: Any, sums: Any) -> Any:
        seed = torch.zeros((), dtype=torch.int64)
        return aten._scaled_dot_product_efficient_attention_backward(
            dy, q, k, v, bias, y, sums, seed, seed, 0.0, [True, True, True, True]
        )

    inputs = (dy, q, k, v, bias, y, sums)
    halves = [*(x.half() for x in inputs[:-1]), sums.float()]
    text = from_torch(Applied(gradients), tuple(halves), whole=True).program.text()
    compilation = compile_text(Source("k.mcu", text))
    assert "attention_dmask(" in text and "cutlass.gemm" not in compilation.emit("cutlass")
    assert "s32[]" not in text  # seeds of dropout, which nothing reads
    found = compilation.interpret("applied", inputs)
    given = [x.requires_grad_() for x in (q, k, v, bias)]
    expected = torch.autograd.grad(((q @ k.mT / 8**0.5 + bias).softmax(-1) @ v), given, dy)
    assert len(found) == 4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=2**-10, rtol=2**-8)


@pytest.mark.parametrize(
    "heads",
    [(4, 2, 2, 4), (4, 2, 2, 1), (4, 1, 1, 4), (4, 1, 4, 1), (4, 4, 1, 4)],
    ids=lambda heads: "x".join(map(str, heads)),
)
@pytest.mark.parametrize("repeated", [False, True])
def test_masks_of_heads_that_share_keys(heads: tuple[int, ...], repeated: bool):
    torch.manual_seed(1)
    shapes = [(2, n, m, 8) for n, m in zip(heads[:3], (5, 7, 7), strict=True)]
    inputs = tuple(torch.randn(shape).half() for shape in (*shapes, (heads[3], 5, 7)))

    def forward(q: Any, k: Any, v: Any, mask: Any) -> Any:
        if repeated:
            k, v = (x[:, :, None].expand(2, -1, 4 // x.shape[1], 7, 8).flatten(1, 2) for x in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    made = from_torch(Applied(forward), inputs, whole=True)
    assert "attention(" in made.program.text()
    agrees(made, *inputs)


def test_what_repeats_elements_is_expanded_by_the_kernel():
    """Sinks of heads, and keys of a cache that heads share, are arguments as they are in memory."""
    q, k, v = _tensors(2)

    def forward(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        k, v = (x[:, :, None].expand(2, 2, 2, 7, 8).reshape(2, 4, 7, 8) for x in (k, v))
        scores = torch.cat([q @ k.mT, sinks.reshape(1, -1, 1, 1).expand(2, -1, 5, -1)], dim=-1)
        return scores.softmax(-1)[..., :-1] @ v

    inputs = (q.half(), k.half(), v.half(), torch.randn(4).half())
    made = from_torch(Applied(forward), inputs)
    text = made.program.text()
    assert "[2, 4, 7, 8]" not in text.split("->")[0] and "[2, 4, 5, 1]" not in text.split("->")[0]
    assert "cutlass.attention " in str(compile_text(Source("k.mcu", text)).cutlass)
    agrees(made, *inputs)
