"""Products of one operand with frozen weights become one product, where that is expected to be faster."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
config: Any = pytest.importorskip("torch._inductor.config")


@pytest.fixture(autouse=True)
def frozen(compiled_anew: None):
    with config.patch({"freezing": True, "cpp.weight_prepack": False}), torch.no_grad():
        yield


def backend(**options: Any) -> Any:
    import mucc

    given = {"interpret": True, "fallback": "error", "rest": "eager", "cpp.weight_prepack": False}
    return mucc.torch_backend(**{**given, **options})


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each graph is predicted to be faster than the one before."""
    from mucc.torch.backend.passes import RegionsPass

    times = itertools.count(100, -1)
    monkeypatch.setattr(RegionsPass, "seconds", lambda self, module: next(times))


class Projections(nn.Module):
    """Linear layers of one input, of which some results leave as they are, or as views."""

    def __init__(self, k: int, widths: tuple[int, ...], bias: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(k, n, bias=bias) for n in widths)

    def forward(self, x: Any) -> Any:
        first, *others = [layer(x) for layer in self.layers]
        return torch.relu(first) + 1, [o.unsqueeze(0).transpose(1, 2) for o in others[:1]], others[1:]


@pytest.mark.parametrize(
    ("shape", "widths", "bias", "regions"),
    [
        ((5, 24), (16, 8, 8), True, "expected"),
        ((2, 3, 8), (1, 7), True, "all"),
        ((2, 16), (3, 3, 3, 5), False, "expected"),
        ((4, 4, 2, 8), (8, 2), False, "all"),
    ],
)
def test_results_and_their_strides_are_those_of_eager_pytorch(
    shape: tuple[int, ...], widths: tuple[int, ...], bias: bool, regions: str, always: None
):
    model, x = Projections(shape[-1], widths, bias).eval(), torch.randn(shape)
    made = backend(regions=regions)
    wanted = torch.utils._pytree.tree_leaves(model(x))
    got = torch.utils._pytree.tree_leaves(torch.compile(model, backend=made)(x))
    assert made.joined == 1
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert one.stride() == other.stride()


def test_open_extents_stay_open(always: None):
    model, made = Projections(16, (8, 4), True).eval(), backend()
    compiled = torch.compile(model, backend=made, dynamic=True)
    for rows in (7, 3, 12):
        x = torch.randn(rows, 16)
        for one, other in zip(*map(torch.utils._pytree.tree_leaves, (compiled(x), model(x))), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert made.joined == 1 and len(made.divided) == 1


@pytest.mark.parametrize("case", ["trained", "other inputs", "other dtypes", "not frozen"])
def test_other_products_stay_apart(case: str, always: None):
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(8, 4, bias=False), nn.Linear(8, 6, bias=False)

        def forward(self, x: Any) -> Any:
            second = torch.sin(x) if case == "other inputs" else x
            if case == "other dtypes":
                return self.a(x), torch.mm(x.half(), self.b.weight.half().t())
            return self.a(x), self.b(second)

    model, made, x = Other(), backend(), torch.randn(5, 8)
    with torch.set_grad_enabled(case == "trained"), config.patch(freezing=case != "not frozen"):
        got = torch.compile(model, backend=made)(x)
    for one, other in zip(got, model(x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)
    assert made.joined == 0


def joined(rows: int, k: int, widths: tuple[int, ...]) -> tuple[int, list[float]]:
    """How many groups are joined by prediction, and the predicted times of the graphs that were looked at."""
    from mucc.torch.backend.passes import RegionsPass

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(k, n, bias=False) for n in widths)

        def forward(self, x: Any) -> Any:
            return [torch.sigmoid(layer(x)) for layer in self.layers]

    seen: list[float] = []
    seconds = RegionsPass.seconds
    model, x = Attends().to(torch.bfloat16).eval(), torch.randn(rows, k).to(torch.bfloat16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegionsPass, "seconds", lambda *a: seen.append(seconds(*a)) or seen[-1])
        made = backend()
        got, wanted = torch.compile(model, backend=made)(x), model(x)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)
    return made.joined, seen


def test_the_predicted_time_decides():
    count, (apart, together) = joined(16, 512, (512, 128, 128))
    assert together < apart and count == 1


def test_what_is_not_faster_stays_apart(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import concatenate as module
    from mucc.torch.backend.passes import RegionsPass

    times = iter([1.0, 1.0])
    monkeypatch.setattr(RegionsPass, "seconds", lambda self, graph: next(times))
    graphs: list[int] = []
    kept = module.concatenate

    def counting(graph: Any, *args: Any) -> int:
        before = str(graph.graph)
        found = kept(graph, *args)
        graphs.append(found)
        assert before == str(graph.graph)
        return found

    monkeypatch.setattr("mucc.torch.backend.backend.concatenate", counting)
    model = Projections(8, (4, 4, 2), False).eval()
    torch.compile(model, backend=backend())(torch.randn(3, 8))
    assert graphs == [0]


@pytest.mark.long
def test_a_graph_from_inductors_cache_has_the_weights_of_its_model(always: None):
    """By Inductor on the CPU: equal graphs of two models are compiled once."""
    x = torch.randn(5, 24)
    for _ in range(2):
        torch._dynamo.reset()
        model = Projections(24, (16, 8, 4), True).eval()
        made = backend(rest="inductor", margin=1e9)
        got = torch.compile(model, backend=made)(x)
        for one, other in zip(*map(torch.utils._pytree.tree_leaves, (got, model(x))), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            assert one.stride() == other.stride()
        assert made.joined == 1
    assert torch._dynamo.utils.counters["inductor"]["fxgraph_cache_hit"] >= 1
