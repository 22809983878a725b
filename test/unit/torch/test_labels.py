"""Masks of attention that compare int64 segments: kernels compare their ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
F: Any = torch.nn.functional

LENGTH = 40


pytestmark = pytest.mark.usefixtures("compiled_anew")


def documents(q: Any, k: Any, v: Any, segments: Any) -> Any:
    mask = segments[:, None, :, None] == segments[:, None, None]
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return F.scaled_dot_product_attention(y, k, v, attn_mask=mask)


def across(q: Any, k: Any, v: Any, segments: Any) -> Any:
    others = segments.flip(1) * 3
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=segments[:, None, :, None] == others[:, None, None]
    )


def _inputs(grad: bool = False) -> list[Any]:
    tensors = [torch.randn(2, 2, LENGTH, 16, requires_grad=grad) for _ in "qkv"]
    # Numbers whose low 32 bits are the same, negative ones, and the largest.
    numbers = torch.tensor([7, 7 + (1 << 32), -7, (1 << 63) - 1, 7 - (1 << 32)])
    return [*tensors, numbers[torch.arange(LENGTH) // 9][None].repeat(2, 1).contiguous()]


def _compiled(function: Callable[..., Any]) -> tuple[Any, Any]:
    import mucc

    backend = mucc.torch_backend(interpret=True, fallback="error", rest="eager", regions="all")
    return backend, torch.compile(function, backend=backend, dynamic=False)


@pytest.mark.parametrize("function", [documents, across], ids=lambda f: f.__name__)
def test_kernels_compare_ranks_of_int64(function: Callable[..., Any]) -> None:
    inputs = _inputs()
    backend, made = _compiled(function)
    with torch.no_grad():
        torch.testing.assert_close(made(*inputs), function(*inputs))
    (program,) = backend.programs
    text = program.text()
    assert "attention(" in text and "s32[" in text and "==" in text


def test_gradients_have_the_same_ranks() -> None:
    inputs = _inputs(grad=True)
    _, made = _compiled(documents)
    got, wanted = (torch.autograd.grad(f(*inputs).sum(), inputs[:3]) for f in (made, documents))
    torch.testing.assert_close(got, wanted)


def test_numbers_are_sorted_once() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from mucc.torch.backend.masks import simplify_masks

    graph = make_fx(documents, tracing_mode="fake")(*_inputs()).graph
    assert simplify_masks(graph) == 0
    names = [str(n.target) for n in graph.nodes]
    assert names.count("aten.sort.default") == 1
    assert names.count("aten.searchsorted.Tensor") == 2


def test_small_masks_and_int32_stay() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from mucc.torch.backend.masks import simplify_masks

    *tensors, segments = _inputs()
    few = [t[:, :, :4].contiguous() for t in tensors]
    for given in ([*tensors, segments.int()], [*few, segments[:, :4].contiguous()]):
        graph = make_fx(documents, tracing_mode="fake")(*given).graph
        before = len(graph.nodes)
        simplify_masks(graph)
        assert len(graph.nodes) == before
