"""Masks of attention whose values are known: dropped, or made causal, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
F: Any = torch.nn.functional

from inductor import Graphs  # noqa: E402 (it needs torch)

BATCH, HEADS, LENGTH, WIDTH = 2, 2, 24, 16


pytestmark = pytest.mark.usefixtures("compiled_anew")


def causal(length: int, q: Any) -> Any:
    """A mask as decoders compute it, from positions, packed sequences among them."""
    places = torch.arange(length, device=q.device)
    jumps = torch.diff(places[None], prepend=places[None][:, :1] - 1, dim=1) != 1
    parts = jumps.cumsum(1)[0]
    return (places[:, None] >= places) & (parts[:, None] == parts)


def everything(length: int, q: Any) -> Any:
    return torch.ones(length, length, dtype=torch.bool, device=q.device)


def window(length: int, q: Any) -> Any:
    places = torch.arange(length, device=q.device)
    return (places[:, None] >= places) & (places[:, None] - places < 4)


def attention_calls(graphs: list[Any]) -> list[Any]:
    return [n for g in graphs for n in g.graph.nodes if "_scaled_dot_product" in str(n.target)]


def arguments(node: Any) -> dict[str, Any]:
    schema = node.target._schema.arguments
    given = dict(zip((a.name for a in schema), node.args, strict=False))
    return {**{a.name: a.default_value for a in schema}, **given, **node.kwargs}


def compiled(function: Any) -> Any:
    import mucc

    made = mucc.torch_backend(interpret=True, fallback="error", rest="eager", margin=100.0)
    return torch.compile(function, backend=made, dynamic=False)


def inputs(grad: bool = False) -> list[Any]:
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH, requires_grad=grad) for _ in "qkv"]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("mask", "form"), [(causal, True), (everything, False)])
def test_a_known_mask_is_dropped(
    monkeypatch: pytest.MonkeyPatch, mask: Any, form: bool, added: bool, grad: bool
):
    def f(q: Any, k: Any, v: Any) -> Any:
        seen = mask(q.shape[2], q)[None, None].expand(q.shape[0], -1, -1, -1)
        if added:
            seen = torch.where(seen, 0.0, torch.finfo(q.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    graphs, given = Graphs(monkeypatch).graphs, inputs(grad)
    got, wanted = compiled(f)(*given), f(*given)
    torch.testing.assert_close(got, wanted)
    if grad:
        torch.testing.assert_close(
            torch.autograd.grad(got.sum(), given), torch.autograd.grad(wanted.sum(), given)
        )
    calls = [arguments(n) for n in attention_calls(graphs)]
    assert len(calls) == 1 + grad
    for call in calls:
        assert call.get("attn_mask", call.get("attn_bias")) is None and call["is_causal"] is form


def test_other_masks_stay(monkeypatch: pytest.MonkeyPatch):
    def with_window(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=window(q.shape[2], q))

    def with_argument(q: Any, k: Any, v: Any) -> Any:
        seen = causal(q.shape[2], q) & (q[:, :, :, :1] > -9)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    for f in (with_window, with_argument):
        graphs, given = Graphs(monkeypatch).graphs, inputs()
        with torch.no_grad():
            torch.testing.assert_close(compiled(f)(*given), f(*given))
        (call,) = map(arguments, attention_calls(graphs))
        assert call["attn_mask"] is not None and not call["is_causal"]


@pytest.mark.parametrize(
    ("rows", "form"),
    [
        ([[0.0, -1.0], [0.0, 0.0]], None),
        ([[0.0, float("-inf")], [0.0, 0.0]], "causal"),
        ([[0.0, -65536.0], [0.0, 0.0]], "causal"),
        ([[0.0, -10000.0], [0.0, 0.0]], None),
        ([[0.0, float("-inf")], [float("nan"), 0.0]], None),
        ([[0.0, 0.0], [float("-inf"), 0.0]], None),
        ([[0.0, float("-inf"), float("-inf")], [0.0, 0.0, float("-inf")]], None),
        ([[0.0, 0.0, 0.0]], "none"),
    ],
)
def test_forms(rows: list[list[float]], form: str | None):
    from mucc.torch.backend.masks import form_of

    assert form_of(torch.tensor(rows)) == form
    assert form_of(torch.tensor(rows)[None, None].expand(3, 2, -1, -1)) == form


def test_masks_that_differ_between_heads_stay():
    from mucc.torch.backend.masks import form_of

    heads = torch.stack([torch.ones(4, 4), torch.ones(4, 4).tril()]).bool()
    assert form_of(heads) is None and form_of(heads[:1]) == "none" and form_of(heads[1:]) == "causal"
    assert form_of(torch.zeros(4, 4, dtype=torch.int32)) is None


# Masks that fused kernels do not take


def laid_out(mask: Any) -> tuple[Any, Any]:
    """Compile attention under a mask that `mask(n)` makes; returns the backend and dynamo's graph."""
    import mucc

    def f(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask(q))

    torch._dynamo.reset()
    q, k, v = (torch.rand(2, 4, 16, 8) for _ in range(3))
    made = mucc.torch_backend(interpret=True, fallback="error", rest="eager")
    modules: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        modules.append(module)
        return made(module, inputs)

    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=backend)(q, k, v), f(q, k, v))
    return made, modules[0].graph


def copies_of(graph: Any) -> int:
    return sum(n.op == "call_method" and n.target == "contiguous" for n in graph.nodes)


def test_expanded_masks_are_laid_out_and_then_dropped():
    made, graph = laid_out(lambda q: (torch.arange(16) >= 0)[None, None, :, None].expand(2, 1, 16, 16))
    assert copies_of(graph) == 1 and made.masks == 1


def test_biases_with_heads_last_are_laid_out():
    made, graph = laid_out(lambda q: q.new_ones(16, 16, 4).cumsum(0).permute(2, 0, 1)[None])
    assert copies_of(graph) == 1 and made.masks == 0


def test_a_mask_that_is_an_argument_is_laid_out_for_all_calls():
    import mucc

    def f(q: Any, mask: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(attend(q, q, q, attn_mask=mask), q, q, mask)

    torch._dynamo.reset()
    q, mask = torch.rand(2, 4, 16, 8), torch.rand(16, 16).t()
    made = mucc.torch_backend(interpret=True, fallback="error", rest="eager")
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend=made)(q, mask), f(q, mask))


@pytest.mark.parametrize(
    "mask",
    [
        lambda q: torch.ones(16, 16, dtype=torch.bool).tril(),
        lambda q: q.new_zeros(1, 1, 1, 16).expand(2, 1, 16, 16),
        lambda q: None,
    ],
)
def test_other_masks_stay_as_they_are(mask: Any):
    _, graph = laid_out(mask)
    assert not copies_of(graph)
