"""Large graphs: equal operations are judged once, and pieces beyond what a kernel holds are divided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.library.signature import MOST_ARGS  # noqa: E402
from mucc.torch.importer import from_torch  # noqa: E402
from mucc.torch.importer import piece_judge as judged  # noqa: E402
from mucc.torch.importer.capture import capture  # noqa: E402
from mucc.torch.importer.partition import Graph  # noqa: E402
from mucc.torch.importer.program import cut, formats  # noqa: E402

nn: Any = torch.nn


class Sum(nn.Module):
    def __init__(self, terms: int):
        super().__init__()
        self.terms = terms

    def forward(self, x: Any, y: Any) -> Any:
        for _ in range(self.terms):
            x = x + y
        return x


def cut_by(
    module: Any, *inputs: Any, accepts: Callable[[str], bool] = lambda text: True
) -> tuple[list[str], list[list[str]]]:
    """The texts that are judged of a module, and the operations of its pieces, with a judge of texts."""
    texts: list[str] = []

    def judge(text: str) -> str | None:
        texts.append(text)
        return None if accepts(text) else "refused"

    steps: list[Any] = cut(Graph(capture(module.eval(), inputs), formats(None)), judge)
    return texts, [[n.name for n in step.nodes] for step in steps]


def test_equal_operations_are_emitted_once(monkeypatch: pytest.MonkeyPatch):
    emitted: list[object] = []
    emit: Any = judged.emit_piece

    def noted(*given: Any, **options: Any) -> Any:
        emitted.append(given)
        return emit(*given, **options)

    monkeypatch.setattr(judged, "emit_piece", noted)
    texts, pieces = cut_by(Sum(40), torch.rand(4), torch.rand(4))
    assert [len(p) for p in pieces] == [40] and len(texts) == len(emitted) == 2


def test_what_depends_on_a_number_is_judged_for_each():
    class Scaled(nn.Module):
        def forward(self, x: Any) -> Any:
            return (x * 2.0).relu() + (x * 3.0).relu() * 2.0

    texts, pieces = cut_by(Scaled(), torch.rand(4))
    assert [len(p) for p in pieces] == [6] and len(texts) == 5, texts


def test_a_network_with_more_weights_than_a_kernel_has_arguments_is_several_kernels():
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(20)]
    x = torch.rand(4, 8)
    made = from_torch(nn.Sequential(*layers).eval(), (x,))
    kernels = made.program.kernels
    assert not made.program.opaque and 1 < len(kernels) <= 4
    assert all(len(k.parameters) + len(k.results) <= MOST_ARGS for k in kernels)
    assert all(len(k.results) == 1 for k in kernels)
    assert all(d.is_good for d in made.verify(x))


def test_a_refused_piece_is_divided_before_a_product():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Tanh())
    texts, pieces = cut_by(model, torch.rand(4, 8), accepts=lambda text: text.count("matmul") < 2)
    assert pieces == [["linear", "gelu"], ["linear_1", "tanh"]] and len(texts) > 2


def test_parts_of_an_operation_stay_with_it():
    class Top(nn.Module):
        def forward(self, x: Any) -> Any:
            values, places = x.exp().topk(3)
            return values.relu(), places

    _, pieces = cut_by(Top(), torch.rand(4, 8), accepts=lambda text: "relu" not in text or "exp" not in text)
    assert sum(len(p) for p in pieces) == 5 and len(pieces) == 2


def test_names_are_counted_up():
    from mucc.frontend.names import Names

    names = Names("x1")
    assert [names.new("x") for _ in range(4)] == ["x", "x2", "x3", "x4"]
    assert [names.new("x3") for _ in range(2)] == ["x3_1", "x3_2"]
