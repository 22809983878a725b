"""`mucc.explain` looks at a model, and leaves all as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import mucc

torch: Any = pytest.importorskip("torch", reason="needs torch")
nn: Any = torch.nn

from inductor import backend, calls  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.usefixtures("compiled_anew")

isolates = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="torch compiles nothing apart"
)


class Counting(nn.Module):
    """A layer in training with state: statistics of a batch, dropout, and a count behind a graph break."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.drop = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        x.mul_(2)
        self.count += 1
        y = self.drop(self.norm(self.layer(x)))
        torch._dynamo.graph_break()
        self.count.mul_(3)
        return y * self.count


def test_memory_gradients_and_random_numbers_are_as_before():
    model, x = Counting(), torch.rand(4, 8)
    state, given, random = copy.deepcopy(model.state_dict()), x.clone(), torch.get_rng_state()
    assert len(mucc.explain(model, x).graphs) >= 2
    assert all(torch.equal(v, state[n]) for n, v in model.state_dict().items())
    assert torch.equal(x, given) and torch.equal(torch.get_rng_state(), random)
    assert all(p.grad is None for p in model.parameters())


def test_memory_is_as_before_where_extents_depend_on_values():
    def f(x: Any, w: Any) -> Any:
        x.add_(1)
        return x[x[:, 0] > 1.5] @ w

    x, w = torch.rand(8, 8), torch.rand(8, 8)
    given = x.clone()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.inference_mode():
        mucc.explain(f, x, w)
    assert torch.equal(x, given)


@isolates
def test_a_model_is_explained_any_number_of_times():
    def f(x: Any, w: Any) -> Any:
        return x @ w

    x, w = torch.rand(8, 8), torch.rand(8, 8)
    for _ in range(torch._dynamo.config.recompile_limit + 1):
        assert len(mucc.explain(f, x, w).graphs) == 1
    made = backend(regions="all")
    torch.compile(f, backend=made)(x, w)
    assert calls(made) == 1


def test_sizes_of_one_call_are_not_open_in_the_next():
    def f(x: Any, w: Any) -> Any:
        return x @ w

    w = torch.rand(8, 8)
    texts = [mucc.explain(f, torch.rand(n, 8), w, margin=-1e9).graphs[0].text for n in (4, 6)]
    assert "[4, 8]" in texts[0] and "[6, 8]" in texts[1]
    made = backend(regions="all")
    torch.compile(f, backend=made)(torch.rand(9, 8), w)
    assert "[9, 8]" in made.programs[0].text()
