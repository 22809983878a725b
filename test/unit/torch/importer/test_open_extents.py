"""Open extents: dims of modules that are imported, computed extents, what has to be fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from problemlib import imported

from mucc.diagnostics.core import DiagnosticError

torch: Any = pytest.importorskip("torch", reason="needs torch")
F = torch.nn.functional


class Halves(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 32)

    def forward(self, x: Any, y: Any) -> Any:
        if x.shape[0] > 10:
            x = x * 2
        h = self.layer(x)
        return torch.relu(h).view(-1, 8), y + h, x[: x.shape[0] // 2].sum(0)


def test_open_extents_are_dims():
    from mucc.library.errors import MuccError
    from mucc.torch.importer import from_torch

    def inputs(n: int, m: int) -> tuple[Any, Any]:
        return torch.rand(n, 16), torch.rand(m, 32)

    module = Halves()
    made = from_torch(module, inputs(64, 64), dynamic_shapes={"x": {0: "M"}, "y": {0: "M"}})
    assert "_0[M](\n    x: f32[M, 16]," in made.text and not made.notes
    driver = made.interpreted()
    for rows in (64, 11, 37):
        given = inputs(rows, rows)
        torch.testing.assert_close(driver(*given), module(*given))
    with pytest.raises(MuccError, match=r"MU7050.*x.size\(\)\[0\] > 10"):
        driver(*inputs(10, 10))
    with pytest.raises(MuccError, match=r"imported as float32\[M=12, 32\], and is float32\[13, 32\]"):
        driver(*inputs(12, 13))


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, x: Any, s: float = 2.0) -> Any:
        return torch.relu(self.norm(x)).mean(1) * s


def test_automatic_extents_are_fixed_where_kernels_need_numbers():
    from mucc.torch.importer import from_torch

    class Sorts(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.sort(x * 2).values

    made = from_torch(Sorts(), (torch.rand(4, 8, 16),), dynamic_shapes="auto")
    assert "x: f32[D0, D1, 16]" in made.text and all(r.kernel for r in made.rows)
    assert [note.split(":")[0] for note in made.notes] == ["axis 2 of 'x' is 16 in the program"]


Shapes = tuple[tuple[int, ...], ...]

DERIVED: dict[str, tuple[Callable[..., Any], str, Shapes, Shapes]] = {
    # what is computed, a part of the program, extents of the import and of another call
    "joined": (
        lambda x, y: torch.relu(torch.cat((x, y))),
        "-> f32[M+P, 8]",
        ((5, 8), (7, 8)),
        ((3, 8), (4, 8)),
    ),
    "cache": (
        lambda x, y: torch.softmax(x @ torch.cat((y, x), 1).transpose(1, 2), -1),
        "-> f32[M, N, N+Q]",
        ((2, 3, 8), (2, 5, 8)),
        ((3, 4, 8), (3, 9, 8)),
    ),
    "steps": (lambda x: torch.exp(x[:, 1:] - x[:, :-1]), "x[:, 1:] - x[:, : N - 1]", ((4, 9),), ((2, 3),)),
    "ends": (lambda x: torch.tanh(x[:, -1]) + x[:, -2], "x[:, N - 1]", ((4, 9, 8),), ((2, 3, 8),)),
    "padded": (lambda x: F.pad(x, (1, 2)) * 2, "-> f32[M, N+3]", ((4, 9),), ((2, 3),)),
    "flat": (lambda x: torch.relu(x.reshape(-1, 8)) * 2, "-> f32[M*N, 8]", ((4, 9, 8),), ((2, 3, 8),)),
    "average": (lambda x: torch.relu(x) / x.shape[1], " / N", ((4, 9),), ((2, 3),)),
    "repeated": (lambda x: torch.relu(x).repeat(1, 3), "-> f32[M, 3*N]", ((4, 9),), ((2, 3),)),
    "gated": (
        lambda x: F.silu(x.view(x.shape[0], 2, -1)[:, 0]) * x.view(x.shape[0], 2, -1)[:, 1],
        "-> f32[M, N/2]",
        ((4, 8),),
        ((2, 6),),
    ),
}


@pytest.mark.parametrize("name", DERIVED)
def test_computed_extents_are_arithmetic_on_open_ones(name: str):
    from mucc.torch.importer import from_torch

    function, part, first, other = DERIVED[name]
    one = len(first) == 1
    forward = (lambda self, x: function(x)) if one else (lambda self, x, y: function(x, y))
    module = type("Computes", (torch.nn.Module,), {"forward": forward})()
    names = {"x": {0: "M", 1: "N"}} | ({} if one else {"y": {0: "P", 1: "Q"}})
    if name == "joined":
        names = {"x": {0: "M"}, "y": {0: "P"}}
    if name == "cache":
        names["y"][0] = "M"
    made = from_torch(module, tuple(torch.rand(s) for s in first), dynamic_shapes=names)
    assert part in made.text, made.text
    assert [r.reason for r in made.rows if not r.kernel] in ([], ["a view"] * 2), made.rows
    driver = made.interpreted()
    for shapes in (first, other):
        given = [torch.rand(s) for s in shapes]
        torch.testing.assert_close(driver(*given), module(*given))


def test_quotients_that_may_leave_a_remainder_stay_with_pytorch():
    from mucc.torch.importer import from_torch

    class Cuts(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:, : x.shape[1] // 2] * 2

    made = from_torch(Cuts(), (torch.rand(4, 8),), dynamic_shapes={"x": {1: "N"}})
    driver = made.interpreted()
    for columns in (8, 7, 4):
        x = torch.rand(4, columns)
        torch.testing.assert_close(driver(x), made.module(x))


def test_means_and_norms_go_over_open_extents():
    from mucc.torch.importer import from_torch

    module = Normed()
    made = from_torch(module, (torch.rand(4, 8, 16), 3.0), dynamic_shapes="auto")
    assert "x: f32[D0, D1, 16]" in made.text and all(r.kernel for r in made.rows)
    assert [note.split(":")[0] for note in made.notes] == ["axis 2 of 'x' is 16 in the program"]
    y = torch.rand(9, 5, 16)
    torch.testing.assert_close(made.interpreted()(y, 0.5), module(y, 0.5))


def test_named_extents_stay_open():
    from mucc.torch.importer import from_torch

    batch = torch.export.Dim("batch")
    made = from_torch(Normed(), (torch.rand(4, 8, 16),), dynamic_shapes=({0: batch, 1: "S"},))
    assert "[batch, S]" in made.text and not made.notes
    assert all(r.kernel for r in made.rows)
    y = torch.rand(3, 5, 16)
    torch.testing.assert_close(made.interpreted()(y), made.module(y))


@pytest.mark.parametrize(
    ("dynamic", "words"),
    [
        ({"z": {0: "M"}}, "'z' is no tensor"),
        ({"x": {3: "M"}}, "has 3 axes"),
        ({"x": {0: "relu"}}, "cannot be called 'relu'"),
    ],
)
def test_extents_that_cannot_be_open(dynamic: Any, words: str):
    from mucc.torch.importer import from_torch

    with pytest.raises(DiagnosticError) as caught:
        from_torch(Normed(), (torch.rand(4, 8, 16),), dynamic_shapes=dynamic)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "MU7023" and words in diagnostic.message


def test_open_extents_of_a_problem_file():
    answer = imported("linear_gelu", dynamic=("x:0=M",))
    assert "[M](\n    x: f32[M, 512]," in answer.text
    assert answer.agrees and answer.checks
    with pytest.raises(DiagnosticError) as caught:
        imported("linear_gelu", dynamic=("x=M",))
    assert caught.value.diagnostics[0].code == "MU7023"
