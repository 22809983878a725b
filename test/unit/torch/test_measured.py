"""Regions are taken where they were measured to win; times are kept in the tuning database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


pytestmark = pytest.mark.usefixtures("compiled_anew", "own_database")


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.gelu(self.up(x)))


class Watch:
    """What times regions in place of a GPU: `mucc` seconds for the kernel, 1 for Inductor."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mucc: float):
        from mucc.torch.backend import measured

        self.mucc, self.timed = mucc, 0
        self.calls: list[Callable[[], Any]] = []

        class Eager:
            @staticmethod
            def compile_fx(module: Any, inputs: Any, config_patches: Any) -> Any:
                assert config_patches["post_grad_custom_pre_pass"] is None
                return module.forward

        monkeypatch.setattr(measured, "_inductor", Eager)
        monkeypatch.setattr(measured, "seconds_of", self.seconds)

    def seconds(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        self.timed += 1
        self.calls += calls
        return [1.0, self.mucc]


def run(**options: Any) -> Any:
    import mucc

    given = {"interpret": True, "fallback": "error", "rest": "eager", "fx_graph_cache": False}
    made = mucc.torch_backend(**{**given, "measure": True, **options})
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Mlp().to(torch.bfloat16), torch.rand(128, 64).to(torch.bfloat16)
    with torch.no_grad():
        got = torch.compile(model, backend=made)(x)
        torch.testing.assert_close(got, model(x), rtol=2e-2, atol=2e-2)
    return made


def kernels(made: Any) -> int:
    return sum(len(p.kernels) for p in made.programs)


@pytest.mark.parametrize(("mucc", "taken"), [(0.5, True), (0.99, False), (1.5, False)])
@pytest.mark.filterwarnings("ignore:MU7064")
def test_a_region_that_wins_is_taken(monkeypatch: pytest.MonkeyPatch, mucc: float, taken: bool):
    watch = Watch(monkeypatch, mucc)
    made = run()
    assert (kernels(made) > 0) is taken and watch.timed > 0
    measured = [d for d in made.divided[0].choice.decisions if d.measured]
    assert measured and all(d.taken is taken for d in measured)
    assert all(d.mucc == mucc and d.inductor <= 1 for d in measured)


def test_times_are_kept(monkeypatch: pytest.MonkeyPatch):
    watch = Watch(monkeypatch, 0.5)
    first = run()
    timed = watch.timed
    again = run()
    assert watch.timed == timed > 0 and kernels(again) == kernels(first) > 0
    without = run(measure=False)
    assert watch.timed == timed and kernels(without) == kernels(first)
    assert any(d.measured for d in without.divided[0].choice.decisions)


@pytest.mark.filterwarnings("ignore:MU7064")
def test_equal_layers_are_measured_once(monkeypatch: pytest.MonkeyPatch):
    import mucc

    watch = Watch(monkeypatch, 0.5)
    made = mucc.torch_backend(interpret=True, fallback="error", rest="eager", measure=True)
    model, x = nn.Sequential(*(Mlp() for _ in range(3))), torch.rand(128, 64)
    with torch.no_grad():
        torch.compile(model, backend=made)(x)
    assert kernels(made) >= 3 and watch.timed <= 2 * kernels(made) // 3


@pytest.mark.filterwarnings("ignore:MU7064")
def test_a_wrong_kernel_is_not_taken(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import measured

    Watch(monkeypatch, 0.5)
    monkeypatch.setattr(measured, "_distance", lambda got, wanted: 1.0)
    made = run()
    assert not kernels(made)
    assert any("results differ" in d.reason for d in made.divided[0].choice.decisions)


@pytest.mark.filterwarnings("ignore:MU7064")
def test_prediction_decides_where_nothing_was_measured(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend import measured

    Watch(monkeypatch, 0.5)

    def fails(calls: Any) -> list[float]:
        raise RuntimeError("no GPU")

    monkeypatch.setattr(measured, "seconds_of", fails)
    predicted = run(measure=False)
    made = run()
    assert kernels(made) == kernels(predicted)
    assert not any(d.measured for d in made.divided[0].choice.decisions)


def test_distances():
    from mucc.torch.backend.measured import _distance

    a = torch.tensor([1.0, 2.0])
    assert _distance(a, a) == 0 and _distance(a * 1.1, a) == pytest.approx(0.1)
    nan = torch.tensor([1.0, float("nan")])
    assert _distance(nan, nan) == 0 and _distance(a, nan) == float("inf")
    assert _distance(torch.tensor([1]), torch.tensor([2])) == float("inf")


def test_the_order_of_a_regions_nodes_does_not_matter():
    """Regions list their nodes by the copy of the graph, in which aliases stand elsewhere."""
    from torch.fx.experimental.proxy_tensor import make_fx

    from mucc.torch.backend.measured import alone, form_of
    from mucc.torch.backend.rewrite import Region

    def f(x: Any, y: Any) -> Any:
        return torch.relu(x[:, None].expand(-1, 3, -1) + y).sum(1)

    def traced() -> Any:
        return make_fx(f, tracing_mode="fake")(torch.rand(2, 4), torch.rand(2, 3, 4)).graph

    forms: list[str] = []
    for turned in (False, True):
        nodes = [n for n in traced().nodes if n.op == "call_function"]
        kernel: Any = None
        listed = tuple(reversed(nodes)) if turned else tuple(nodes)
        made, originals = alone(Region(kernel, listed, (), (nodes[-1],)))
        made.lint()
        assert len(originals) == len(nodes) + 2
        forms.append(form_of(made))
    assert forms[0] == forms[1] and "add.Tensor" in forms[0]


def test_copies_that_a_kernel_does_without_are_measured():
    from torch.fx.experimental.proxy_tensor import make_fx

    from mucc.torch.backend.measured import alone
    from mucc.torch.backend.rewrite import Region

    def f(x: Any, y: Any) -> Any:
        wide = x[:, None].expand(-1, 3, -1).clone().view(-1, 4)
        return torch.relu(wide + y), wide

    graph = make_fx(f, tracing_mode="fake")(torch.rand(2, 4), torch.rand(6, 4)).graph
    x, y, *nodes, _ = graph.nodes
    *_, add, relu = nodes
    kernel: Any = None
    made, originals = alone(Region(kernel, (add, relu), (x, y), (relu,)))
    assert [n.op for n in made.nodes] == ["placeholder"] * 2 + ["call_function"] * 2 + ["output"]
    for output in graph.find_nodes(op="output"):
        output.args = ((relu,),)
    made, originals = alone(Region(kernel, (add, relu), (x, y), (relu,)))
    assert originals == [x, y, *nodes]
