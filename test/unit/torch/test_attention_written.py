"""Attention that a module in training writes out is a call of PyTorch's, whose gradients store no scores."""

from __future__ import annotations

from typing import Any

import pytest

import mucc

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional

pytestmark = [pytest.mark.usefixtures("compiled_anew"), pytest.mark.filterwarnings("ignore:MU7064")]

ATTENTION = F.scaled_dot_product_attention


def calls(function: Any, *inputs: Any) -> list[dict[str, Any]]:
    """Return the options of attention that is called in the graph of a function, once it is rewritten.

    Values and gradients of the graph are those of the function.
    """
    from mucc.torch.backend.attention_calls import call_attention

    found: list[dict[str, Any]] = []

    def compiler(module: Any, _: Any) -> Any:
        call_attention(module)
        module.graph.lint()
        found.extend(dict(n.kwargs) for n in module.graph.nodes if n.target is ATTENTION)
        return module.forward

    results: list[Any] = []
    for called in (function, torch.compile(function, backend=compiler)):
        given = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        torch.manual_seed(2)
        y = called(*given)
        y.square().sum().backward()
        results.append([y, *(x.grad for x in given if x.grad is not None)])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    return found


def heads(dtype: Any = torch.float32) -> tuple[Any, ...]:
    torch.manual_seed(0)
    return tuple(torch.rand(2, 3, n, 8).to(dtype) for n in (5, 7, 7))


def plain(q: Any, k: Any, v: Any) -> Any:
    return torch.matmul(F.softmax(q @ k.transpose(-1, -2) / 8**0.5, dim=-1), v)


def scaled_twice(q: Any, k: Any, v: Any) -> Any:
    return ((q * 0.5) @ k.mT * 2 * 0.25).softmax(-1) @ v


def of_t5(q: Any, k: Any, v: Any, bias: Any) -> Any:
    scores = torch.matmul(q, k.transpose(3, 2))
    scores += bias
    weights = F.softmax(scores.float(), dim=-1).type_as(scores)
    return torch.matmul(F.dropout(weights, 0.1, training=False), v)


def two_sums(q: Any, k: Any, v: Any, bias: Any) -> Any:
    hidden = torch.full((5, 7), float("-inf")).triu(3)
    return (bias + (q @ k.mT * 0.3 + hidden)).softmax(-1) @ v


def of_batches(q: Any, k: Any, v: Any) -> Any:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    return torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), 2), v)


def of_columns(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return (q @ k.mT + bias[0, 0, 0]).softmax(-1) @ v


def weights_returned(q: Any, k: Any, v: Any) -> Any:
    weights = (q @ k.mT).softmax(-1)
    return (weights @ v).sum() + weights.amax()


def dropped(q: Any, k: Any, v: Any) -> Any:
    return F.dropout((q @ k.mT).softmax(-1), 0.5) @ v


def of_rows(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.mT).softmax(-2) @ v


def scaled_with_bias(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return ((q @ k.mT + bias) * 0.5).softmax(-1) @ v


def added_to_the_bias(q: Any, k: Any, v: Any, bias: Any) -> Any:
    bias = bias.expand(2, 3, 5, 7).clone()
    bias += q @ k.mT
    return bias.softmax(-1) @ v + bias.sum()


def capped(q: Any, k: Any, v: Any) -> Any:
    return (torch.tanh(q @ k.mT / 5) * 5).softmax(-1) @ v


def scores_read(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.mT
    return (scores.softmax(-1) @ v).sum() + scores.sum()


@pytest.mark.parametrize("function", [plain, scaled_twice, of_batches])
def test_softmax_between_products(function: Any):
    (found,) = calls(function, *heads())
    assert found["attn_mask"] is None
    assert found["scale"] == pytest.approx({"plain": 8**-0.5, "scaled_twice": 0.5}.get(function.__name__, 1))


@pytest.mark.parametrize("function", [of_t5, two_sums, of_columns])
def test_what_is_added_is_a_mask(function: Any):
    (found,) = calls(function, *heads(), torch.rand(1, 3, 5, 7))
    assert found["attn_mask"] is not None


@pytest.mark.parametrize(
    "function", [weights_returned, dropped, of_rows, scaled_with_bias, capped, scores_read]
)
def test_what_is_no_attention_stays(function: Any):
    bias = (torch.rand(1, 3, 5, 7),) if function in (scaled_with_bias, added_to_the_bias) else ()
    assert calls(function, *heads(), *bias) == []


def test_extents_that_fused_kernels_do_not_take_stay():
    assert calls(plain, *(x[..., :6] for x in heads())) == []
    assert calls(plain, *heads()[:2], torch.rand(2, 3, 7, 16)) == []


def stored(model: Any, *inputs: Any) -> list[Any]:
    """The programs of a model in training, forward and backward."""
    made = mucc.torch_backend(interpret=True, fallback="error", regions="all", rest="eager", target="sm_90a")
    torch.compile(model, backend=made)(*inputs).square().sum().backward()
    return made.programs


def test_training_stores_no_scores():
    (q, k, v), bias = (x.requires_grad_() for x in heads()), torch.rand(1, 3, 5, 7)
    forward, backward = stored(of_t5, q, k, v, bias)
    assert "attention(" in forward.text() and "softmax" not in forward.text()
    assert "attention_dk(" in backward.text()


def test_layers_whose_weights_nothing_reads():
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            y, _ = self.attention(x, x, x)
            return y

    forward, backward = stored(Layer(), torch.rand(2, 6, 16))
    assert "attention(" in forward.text() and "attention_dk(" in backward.text()
