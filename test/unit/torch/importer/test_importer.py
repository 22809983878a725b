"""Importing PyTorch modules: what they become, that it means the same, and what bad problem files lead to."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from processes import gone

import mucc.frontend as frontend
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.frontend.source import module_text
from mucc.process.tree import End
from mucc.torch.importer import sandbox
from mucc.torch.importer.request import Answer, Request, kernel_name

torch: Any = pytest.importorskip("torch", reason="needs torch")
F = torch.nn.functional

ROOT = Path(__file__).parents[4]
PROBLEMS = ROOT / "bench" / "kernelbench" / "problems"


def asked(path: Path, **options: Any) -> Request:
    where = {"kernels": str(path.with_suffix(".mcu")), "driver": str(path.with_suffix(".driver.py"))}
    return Request(str(path), path.name, path.read_text(), "model", **where, **options)


def imported(name: str, **options: Any) -> Answer:
    """Import one of the project's problem files in this process, and compare it with PyTorch."""
    from mucc.torch.importer.child import serve

    return serve(asked(PROBLEMS / f"{name}.py", verify=True, **options))


def operations(answer: Answer, kernel: bool) -> list[str]:
    return [row.operation for row in answer.rows if (row.kernel is not None) is kernel]


OURS = sorted(p for p in PROBLEMS.glob("**/*.py") if p.parent.name != "bad")

MOST = {
    "rows": 64,
    "columns": 256,
    "tokens": 64,
    "batch_size": 4,
    "hidden": 256,
    "wide": 512,
    "channels": 32,
    "features": 256,
    "frames": 64,
    "vocabulary": 1000,
}
"""Extents of benchmarks' problems that nothing else in a problem depends on, with the most of each."""

LARGE = re.compile(rf"^({'|'.join(MOST)}) = (\d+)$", re.MULTILINE)


def smaller(path: Path, **options: Any) -> Request:
    """The request for a problem of small extents: what kernels mean does not depend on them."""
    whole = asked(path, **options)
    return replace(whole, text=LARGE.sub(lambda m: f"{m[1]} = {min(int(m[2]), MOST[m[1]])}", whole.text))


def alternately_long(cases: list[Any]) -> list[Any]:
    """Leave every second of many similar cases to a run of the long tests."""
    return [pytest.param(case, marks=pytest.mark.long) if i % 2 else case for i, case in enumerate(cases)]


@pytest.mark.parametrize(
    "path", alternately_long([p for p in OURS if p.parent != PROBLEMS]), ids=lambda p: p.stem
)
def test_problems_of_benchmarks_mean_what_pytorch_computes(path: Path):
    check_meaning(path, True)


@pytest.mark.parametrize(
    ("path", "whole"),
    [(p, w) for p in OURS for w in (True, False) if p.parent == PROBLEMS],
    ids=lambda v: v.stem if isinstance(v, Path) else "whole" if v else "compiled",
)
def test_problems_mean_what_pytorch_computes(path: Path, whole: bool):
    check_meaning(path, whole)


def check_meaning(path: Path, whole: bool) -> None:
    """Import a problem, compare it with PyTorch, and read its program again."""
    from mucc.torch.importer.child import serve

    answer = serve(smaller(path, verify=True, whole=whole))
    assert answer.checks and answer.agrees, [c for c in answer.checks if c.excess > 1]
    if answer.text:
        program, sink = frontend.parse(Source("x.mcu", answer.text))
        module = frontend.lower(program, sink)
        assert not sink.has_errors, sink.diagnostics
        comment = answer.text.splitlines()[0].removeprefix("// ")
        assert module_text(module, comment) == answer.text


def test_a_linear_layer_is_one_kernel():
    answer = imported("linear_gelu")
    body = "    return gelu(matmul(x, linear_weight.T, compute=f32) + linear_bias) * 0.5\n}\n"
    assert answer.text.endswith(body)
    assert operations(answer, kernel=False) == []


def test_products_of_f32_are_exact_unless_told_otherwise():
    assert "compute=f32" in imported("linear_gelu").text
    assert "x @ linear_weight.T" in imported("linear_gelu", compute="tf32").text


def test_batch_norm_in_training_moves_the_running_statistics():
    answer = imported("batch_norm", whole=True)
    assert "norm_running_mean * 0.7 + " in answer.text and "norm_running_var * 0.7 + " in answer.text
    assert {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"} <= {
        c.name for c in answer.checks
    }
    assert "module.norm.running_mean.copy_(" in answer.driver


def test_dropout_stays_with_the_generator_of_torch():
    answer = imported("dropout", whole=True)
    (row,) = [r for r in answer.rows if r.kernel is None]
    assert row.operation == "aten.native_dropout.default" and "generator" in row.reason
    assert answer.text.count("kernel ") == 2


def test_updates_in_place_come_back():
    answer = imported("in_place", whole=True)
    assert "y.copy_(" in answer.driver and "module.total.copy_(" in answer.driver
    assert {c.name for c in answer.checks} >= {"input 1", "total"}


def test_dtypes_are_those_of_torch():
    answer = imported("promotion", whole=True)
    assert "n.to(torch.int32)" not in answer.driver and "keep.to(torch.uint8)" in answer.driver
    assert ".to(torch.int64)" in answer.driver and ".to(torch.bool)" in answer.driver


def test_a_number_that_the_module_makes_is_a_number_of_the_program():
    from mucc.torch.importer import from_torch

    class Capped(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.minimum(x, torch.tensor(0.5))

    made = from_torch(Capped(), (torch.rand(8, 8),))
    assert "return min(x, 0.5)\n" in made.text
    assert torch.equal(made.interpreted()(x := torch.rand(8, 8)), torch.clamp(x, max=0.5))


STRUCTURED = """
import torch
n = 4096
class Model(torch.nn.Module):
    def forward(self, upper, lower, both, mirrored, zeros, plain, row, places):
        return upper @ lower @ both @ mirrored + zeros + plain + row + places
def get_inputs():
    x = torch.rand(n, n)
    made = [torch.triu(x), torch.tril(x), torch.diag(torch.rand(n)), x + x.T, torch.zeros(n, n)]
    return [*made, torch.rand(n, n), torch.rand(1, n), torch.eye(n, dtype=torch.int64)]
"""


def test_what_inputs_have_in_common_is_seen(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "p.py"
    path.write_text(STRUCTURED)
    answer = serve(asked(path, whole=True, structure=True))
    patterns = {name: said.pattern for name, said in answer.structure.items()}
    assert patterns.pop("zeros") == "general" and answer.structure["zeros"].constant == 0
    assert patterns == {
        "upper": "upper triangular",
        "lower": "lower triangular",
        "both": "diagonal",
        "mirrored": "symmetric",
    }
    path.write_text(STRUCTURED.replace("n = 4096", 'n = int("4096")'))  # nothing to reduce
    assert serve(asked(path, whole=True, structure=True)).structure == {}


def test_work_is_counted():
    answer = imported("linear_gelu")
    linear = answer.rows[0]
    assert linear.operations == 2 * 256 * 512 * 1024
    assert linear.bytes == 4 * (256 * 512 + 512 * 1024 + 1024 + 256 * 1024)


# From Python


def test_a_driver_checks_its_arguments():
    from mucc.library.errors import MuccError
    from mucc.torch.importer import from_torch

    layer = torch.nn.Linear(8, 4)
    made = from_torch(layer, (torch.rand(3, 8),), whole=True)
    driver = made.interpreted()
    x = torch.rand(3, 8)
    torch.testing.assert_close(driver(x), layer(x))
    for bad in ((torch.rand(4, 8),), (x.double(),), (x, x), ("x",)):
        with pytest.raises(MuccError, match="MU7050"):
            driver(*bad)
    layer.eval()
    with pytest.raises(MuccError, match="MU7051"):
        driver(x)


def test_numbers_stay_arguments():
    from mucc.torch.importer import from_torch

    class Scale(torch.nn.Module):
        def forward(self, x: Any, s: float) -> Any:
            return x * s

    driver = from_torch(Scale(), (torch.rand(3), 2.0), whole=True).interpreted()
    torch.testing.assert_close(driver(torch.ones(3), 5.0), torch.full((3,), 5.0))


# Open extents


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


# Bad problem files


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems run in this process, which has loaded torch, instead of a child."""
    from mucc.torch.importer.child import answered, serve

    def execute(arguments: list[str], *_: object) -> tuple[End, int, int]:
        question, answer = map(Path, arguments)
        given = Request.from_json(json.loads(question.read_text()))
        answer.write_text(json.dumps(answered(given.shown, lambda: serve(given).to_json())))
        return End.OF_ITSELF, 0, 0

    monkeypatch.setattr(sandbox, "_execute", execute)


APART = ("allocates", "exits", "asks", "crashes")
"""Problems for a child: what needs its limits or streams, what ends it, and an error that it reports."""


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("no_inputs", "MU7011", "get_inputs"),
        ("raises", "MU7012", "shape '[3, 5]' is invalid"),
        ("allocates", "MU7014", "memory"),
        ("exits", "MU7015", "status 3"),
        ("control_flow", "MU7020", "depends on values"),
        ("graph_break", "MU7020", "one graph"),
    ],
)
def test_bad_problems_are_errors(request: pytest.FixtureRequest, name: str, code: str, words: str):
    if name not in APART:
        request.getfixturevalue("in_process")
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / f"{name}.py", memory=2 << 30), time_limit=120)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and words in diagnostic.message


def test_endless_problems_are_stopped():
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / "hangs.py"), time_limit=8)
    assert caught.value.diagnostics[0].code == "MU7013"


def test_problems_that_print_without_end_are_stopped_by_time_or_by_the_size_of_files():
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(PROBLEMS / "bad" / "prints.py"), time_limit=6)
    (found,) = caught.value.diagnostics
    assert found.code == "MU7013" or (found.code == "MU7012" and "File too large" in found.message), found


PRELUDE = """
import os, subprocess, sys, time
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(4, 4)]
"""

MORE_BAD = {
    "exits_in_inputs": ("def get_inputs():\n    sys.exit(0)\n", "MU7012", "get_inputs() raised SystemExit"),
    "no_inputs": ("def get_inputs():\n    return None\n", "MU7012", "get_inputs() raised TypeError"),
    "no_module": ("class Model:\n    pass\n", "MU7011", "no torch.nn.Module"),
    "other_arguments": (
        "def get_inputs():\n    return [1, 2, 3]\n",
        "MU7012",
        "too many positional arguments",
    ),
    "asks": ("input()\n", "MU7012", "EOFError"),
    "crashes": ("import ctypes\nctypes.string_at(0)\n", "MU7015", "signal 11"),
    "loops": (
        "def loop(self, x):\n    while x.sum() < 9:\n        x = x + 1\n    return x\nModel.forward = loop\n",
        "MU7020",
        "depends on values",
    ),
}


@pytest.mark.parametrize("name", alternately_long([*MORE_BAD]))
def test_other_bad_problems(request: pytest.FixtureRequest, tmp_path: Path, name: str):
    if name not in APART:
        request.getfixturevalue("in_process")
    text, code, words = MORE_BAD[name]
    path = tmp_path / f"{name}.py"
    path.write_text(PRELUDE + text)
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(asked(path), time_limit=120)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == code and words in diagnostic.message


def test_processes_of_a_problem_end_with_it(tmp_path: Path):
    path, mark = tmp_path / "lingers.py", tmp_path / "pid"
    path.write_text(
        PRELUDE
        + "child = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        + f"open({str(mark)!r}, 'w').write(str(child.pid))\n"
    )
    assert "relu(x)" in sandbox.run(asked(path), time_limit=120).text
    assert gone(int(mark.read_text()))


def test_reading_a_value_is_listed():
    from mucc.torch.importer import from_torch

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x) * x.sum().item()

    made = from_torch(Scaled(), (torch.rand(4, 4),))
    assert any("_local_scalar_dense" in r.operation for r in made.rows if not r.kernel)
    x = torch.rand(4, 4)
    torch.testing.assert_close(made.interpreted()(x), Scaled()(x))


@pytest.mark.parametrize("text", ["def (", "-" * 100_000 + "1", "x = " + "1+" * 100_000 + "1", "x = '\0'"])
def test_what_is_no_python_is_told_before_torch_is_loaded(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "_execute", lambda *_: pytest.fail("a process was started"))
    with pytest.raises(DiagnosticError) as caught:
        sandbox.run(Request.of("problem.py", text))
    found = caught.value.diagnostics[0]
    assert found.code == "MU7010" and not found.message.endswith(": ")


MODULE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {}

def get_inputs():
    return [{}]
"""


def test_a_module_that_pytorch_cannot_run_is_the_problems_fault(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "trunc.py"
    path.write_text(MODULE.format("torch.trunc(x)", "torch.ones(2, 4).bool()"))
    with pytest.raises(DiagnosticError, match="the module, as PyTorch runs it, raised") as caught:
        serve(asked(path, verify=True))
    (found,) = caught.value.diagnostics
    assert found.code == "MU7012" and found.notes == ("trunc.py:6: return torch.trunc(x)",)


def test_empty_tensors_stay_with_pytorch(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "empty.py"
    path.write_text(MODULE.format("torch.relu(x).sum(dim=0)", "torch.ones(0, 4)"))
    answer = serve(asked(path, verify=True))
    assert answer.agrees and not answer.text
    assert {row.reason for row in answer.rows} == {"an empty tensor"}


def test_views_of_what_is_expanded_between_calls_of_pytorch(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "repeat.py"
    repeated = "torch.cummax(torch.cummax(x, 1)[0][:, None].expand(4, 3, 8).reshape(12, 8), dim=0)[0]"
    path.write_text(MODULE.format(repeated, "torch.rand(4, 8)"))
    answer = serve(asked(path, verify=True))
    assert answer.agrees and not answer.text


@pytest.mark.parametrize(
    "function", ["torch.split(x, 9)[-1]", "x.chunk(1, dim=1)[0] + 1", "torch.relu(x).split(4)[0]"]
)
def test_one_part_may_be_the_whole(tmp_path: Path, function: str):
    from mucc.torch.importer.child import serve

    path = tmp_path / "split.py"
    path.write_text(MODULE.format(function, "torch.rand(4, 8)"))
    assert serve(asked(path, verify=True)).agrees
    assert serve(asked(path, verify=True, whole=True)).agrees


def test_constants_that_pytorch_and_kernels_need(tmp_path: Path):
    from mucc.torch.importer.child import serve

    path = tmp_path / "linspace.py"
    path.write_text(MODULE.format("torch.linspace(0, 1, 8) * x", "torch.rand(4, 8)"))
    for whole in (True, False):
        answer = serve(asked(path, verify=True, whole=whole))
        assert answer.agrees and "kernel" in answer.text


def test_what_is_nan_on_both_sides_agrees():
    from mucc.torch.importer.verify import difference

    expected = torch.tensor([1.0, math.nan, math.inf, -math.inf])
    assert difference("result 0", expected, expected.clone()).excess == 0.0
    for got in ([1.0, 2.0, math.inf, -math.inf], [1.0, math.nan, math.nan, -math.inf], [math.nan] * 4):
        assert difference("result 0", expected, torch.tensor(got)).excess == math.inf


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("76_Gemm_Add_ReLU.py", "gemm_add_relu"),
        ("kernel.py", "kernel_"),
        ("a/for.py", "for_"),
        ("3.py", "model_3"),
    ],
)
def test_kernels_are_called_after_their_files(path: str, name: str):
    assert kernel_name(path) == name


# The command line


def mucc(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mucc", "import", *args]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env={**os.environ, "TMPDIR": str(cwd)}
    )


def test_command(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    problem = tmp_path_factory.mktemp("problem") / "linear_gelu.py"
    text = (PROBLEMS / "linear_gelu.py").read_text()
    problem.write_text(f"{text}\nimport gc\nassert gc.isenabled(), 'as before the import of torch'\n")
    done = mucc(str(problem), "-o", "out.mcu", "--verify", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "linear_gelu.py: 1 kernel" in done.stderr and "agrees with PyTorch" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.mcu", "out_driver.py"]
    assert "kernel linear_gelu(" in (tmp_path / "out.mcu").read_text()


Said = pytest.CaptureFixture[str]


def mucc_here(*args: str, cwd: Path, capfd: Said) -> tuple[int, str, str]:
    """The status, stdout and stderr of `mucc import`, run in this process."""
    from mucc.cli.main import main

    with contextlib.chdir(cwd):
        status = main(["import", *args])
    return status, *capfd.readouterr()


@pytest.mark.usefixtures("in_process")
def test_command_leaves_nothing_behind_after_an_error(tmp_path: Path, capfd: Said):
    status, _, err = mucc_here(
        str(PROBLEMS / "bad" / "raises.py"), "-o", "out.mcu", cwd=tmp_path, capfd=capfd
    )
    assert status == 1 and "error[MU7012]" in err and "raises.py:16" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("in_process")
def test_open_extents_on_the_command_line(tmp_path: Path, capfd: Said):
    problem = str(PROBLEMS / "mlp.py")
    status, _, err = mucc_here(problem, "--dynamic", "auto", "-o", "out.mcu", cwd=tmp_path, capfd=capfd)
    assert status == 0 and "warning[MU7022]: axis 1 of 'x'" in err
    assert "kernel mlp[D0](" in (tmp_path / "out.mcu").read_text()
    status, _, err = mucc_here(problem, "--dynamic", "z:0=M", cwd=tmp_path, capfd=capfd)
    assert status == 1 and "error[MU7023]: 'z' is no tensor" in err


@pytest.mark.usefixtures("in_process")
def test_list_and_json(tmp_path: Path, capfd: Said):
    status, out, _ = mucc_here(str(PROBLEMS / "dropout.py"), "--list", cwd=tmp_path, capfd=capfd)
    assert status == 0 and "PyTorch: random numbers" in out
    _, out, _ = mucc_here(str(PROBLEMS / "dropout.py"), "--json", "--whole", cwd=tmp_path, capfd=capfd)
    assert {"text", "driver", "rows", "seconds"} <= set(json.loads(out))
