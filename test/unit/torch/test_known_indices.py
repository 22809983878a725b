"""Indexing at known places that lie evenly is that of slices: nothing is gathered, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mucc

torch: Any = pytest.importorskip("torch", reason="needs torch")
F: Any = torch.nn.functional

from inductor import Graphs  # noqa: E402 (it needs torch)

pytestmark = [pytest.mark.usefixtures("compiled_anew"), pytest.mark.filterwarnings("ignore:MU7064")]

EVEN: dict[str, Callable[[Any], Any]] = {
    "last": lambda x: x[:, :, [-1]],
    "one": lambda x: x[[1]],
    "steps": lambda x: x[:, :, [1, 3, 5]],
    "backwards": lambda x: x[:, [2, 1, 0]],
    "from the end": lambda x: x[..., [-3, -1]],
    "across the end": lambda x: x[:, :2][:, [-1, 0]],
    "equal": lambda x: x[:, :, [4, 4, 4]],
    "of a range": lambda x: x[:, :, torch.arange(1, 4)],
    "selected": lambda x: x.index_select(1, torch.tensor([0, 2])),
    "transposed": lambda x: x.transpose(1, 3)[:, [0, 2]].transpose(1, 3),
}

OTHERS: dict[str, Callable[[Any], Any]] = {
    "uneven": lambda x: x[:, :, [0, 1, 3]],
    "two axes": lambda x: x[:, [0, 1], [0, 1]],
    "of bools": lambda x: x[:, torch.tensor([True, False, True])],
}


def compiled(function: Any, **options: Any) -> Any:
    made = mucc.torch_backend(interpret=True, fallback="error", regions="all", rest="eager", target="sm_90a")
    return torch.compile(function, backend=made, **options)


def indexed(graphs: list[Any]) -> list[Any]:
    return [n for g in graphs for n in g.graph.nodes if "index" in str(n.target)]


ORDERS = ((0, 1, 2, 3), (3, 0, 2, 1))


@pytest.mark.parametrize(
    ("name", "order"), [(name, ORDERS[n % 2]) for n, name in enumerate([*EVEN, *OTHERS, *OTHERS])]
)
def test_backend(monkeypatch: pytest.MonkeyPatch, name: str, order: tuple[int, ...]):
    graphs = Graphs(monkeypatch).graphs
    function = {**EVEN, **OTHERS}[name]
    base = torch.rand(2, 3, 6, 4).permute(order).contiguous()
    back = [order.index(axis) for axis in range(4)]
    results: list[Any] = []
    for called in (function, compiled(function)):
        x = base.clone().requires_grad_()
        y = called(x.permute(back))
        (y * torch.arange(y.numel()).reshape(y.shape)).sum().backward()
        results.append((y, x.grad))
    (theirs, gradient), (ours, got) = results
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    torch.testing.assert_close(got, gradient)
    assert ours.stride() == theirs.stride()
    if name in EVEN:
        assert not indexed(graphs[:1]) and (name == "equal" or not indexed(graphs))


@pytest.mark.parametrize("name", EVEN)
def test_importer(name: str):
    class Module(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return EVEN[name](x) * 2

    x = torch.rand(2, 3, 6, 4)
    made = mucc.from_torch(Module(), (x,), target="sm_90a")
    assert made.text and "gather" not in made.text
    assert all(check.excess <= 1 for check in made.verify(x))


def test_memory_is_no_arguments(monkeypatch: pytest.MonkeyPatch):
    graphs = Graphs(monkeypatch).graphs
    x = torch.rand(2, 3) + 1
    y = compiled(EVEN["backwards"])(x)
    y.zero_()
    assert not indexed(graphs) and bool((x != 0).all())


def test_open_extents(monkeypatch: pytest.MonkeyPatch):
    graphs = Graphs(monkeypatch).graphs

    def last(x: Any) -> Any:
        return x[:, [-1]] + x[:, [0]] + x[:, [-2, -1]]

    called = compiled(last, dynamic=True)
    for n in (5, 9):
        x = torch.rand(2, n, 4)
        torch.testing.assert_close(called(x), last(x))
    assert graphs and not indexed(graphs)


def test_writes_are_those_of_slices(monkeypatch: pytest.MonkeyPatch):
    graphs = Graphs(monkeypatch).graphs

    def written(x: Any, y: Any) -> Any:
        x = x.clone()
        x[:, [3, 2]] = y
        x[:, [0]] += 1
        return x.index_put((torch.tensor([0]),), y[:1, :1] * 2, accumulate=True)

    x, y = torch.rand(2, 4), torch.rand(2, 2)
    torch.testing.assert_close(compiled(written)(x, y), written(x, y))
    assert not indexed(graphs)


def test_keys_of_falcon_are_views():
    """Its one head of keys and one of values lie behind the heads of queries."""

    class Falcon(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            q, k, v = (t.transpose(1, 2) for t in (x[..., :-2, :], x[..., [-2], :], x[..., [-1], :]))
            return F.scaled_dot_product_attention(q, k.expand(q.shape), v.expand(q.shape), is_causal=True)

    text = mucc.from_torch(Falcon(), (torch.rand(2, 16, 10, 64),), target="sm_90a").text
    assert "x[:, :, 8:9]" in text and "x[:, :, 9:]" in text and "gather" not in text
