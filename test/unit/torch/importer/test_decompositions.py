"""Decomposing with few registrations: the graph is the one that torch makes by itself."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch")

from mucc.torch.importer.decompositions import decomposed, decomposition_table  # noqa: E402

F = torch.nn.functional


class Composed(torch.nn.Module):
    """Operations that are kept, that torch has rules for, and that the dispatcher takes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Hardswish(), torch.nn.AvgPool2d(2)
        )
        self.attention = torch.nn.MultiheadAttention(9, 3, batch_first=True)
        self.norm = torch.nn.RMSNorm(9)

    def forward(self, x: Any) -> Any:
        x = self.layers(x).flatten(2)
        x = self.attention(x, x, x, need_weights=False)[0]
        x = self.norm(torch.einsum("bij,bkj->bik", x, x) @ x).chunk(2, 1)[0]
        y = F.upsample_nearest(x, scale_factor=2) + F.pixel_shuffle(x.new_ones(1, 4, 1, 9), 2).sum()
        return F.cosine_similarity(x, x + 1), F.smooth_l1_loss(y, y * 2), torch.tensordot(x, x, 3)


@pytest.mark.filterwarnings("ignore")
def test_the_graph_is_the_one_of_torch():
    program = torch.export.export(Composed(), (torch.rand(2, 3, 8, 8),), strict=False)
    theirs = program.run_decompositions(decomposition_table())
    ours = decomposed(program)
    assert str(ours.graph) == str(theirs.graph)
    assert ours.graph_signature == theirs.graph_signature
    assert [str(n.meta.get("val")) for n in ours.graph.nodes] == [
        str(n.meta.get("val")) for n in theirs.graph.nodes
    ]


def test_torch_is_left_as_it_was():
    from torch._export import utils
    from torch.export import exported_program

    def patched() -> list[Any]:
        return [
            utils._materialize_cpp_cia_ops,
            exported_program._split_decomp_table_to_cia_and_python_decomp,
        ]

    before = patched()
    program = torch.export.export(torch.nn.ReLU(), (torch.rand(2),), strict=False)
    decomposed(program)
    assert patched() == before


def test_few_operations_are_registered(monkeypatch: pytest.MonkeyPatch):
    from torch.export import exported_program

    seen: list[int] = []
    override = exported_program._override_composite_implicit_decomp
    monkeypatch.setattr(
        exported_program,
        "_override_composite_implicit_decomp",
        lambda rules: seen.append(len(rules)) or override(rules),
    )
    decomposed(torch.export.export(torch.nn.ReLU(), (torch.rand(2),), strict=False))
    assert seen and max(seen) < 60
