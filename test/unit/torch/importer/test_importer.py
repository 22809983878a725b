"""Importing PyTorch modules: what they become, and that it means the same."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from budget import alternately_long
from problemlib import PROBLEMS, asked, imported, operations

import mucc.frontend as frontend
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.frontend.source import module_text
from mucc.torch.importer.request import Request, kernel_name

torch: Any = pytest.importorskip("torch", reason="needs torch")


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


def test_reading_a_value_is_listed():
    from mucc.torch.importer import from_torch

    class Scaled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x) * x.sum().item()

    made = from_torch(Scaled(), (torch.rand(4, 4),))
    assert any("_local_scalar_dense" in r.operation for r in made.rows if not r.kernel)
    x = torch.rand(4, 4)
    torch.testing.assert_close(made.interpreted()(x), Scaled()(x))


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


def test_the_program_that_is_written_is_the_one_that_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A problem is captured once; a second time only where it is compared at smaller sizes."""
    from mucc.torch.importer import capture, sizes
    from mucc.torch.importer.child import serve

    captures: list[Any] = []
    real = capture.capture
    monkeypatch.setattr(capture, "capture", lambda *given: captures.append(given) or real(*given))
    path = tmp_path / "relu.py"
    path.write_text("n = 64\n" + MODULE.format("torch.relu(x)", "torch.rand(n, n)"))
    assert serve(asked(path, verify=True)).checked == serve(asked(path)).inputs
    assert len(captures) == 2
    monkeypatch.setattr(sizes, "is_large", lambda operations, _: operations > 1000)
    answer = serve(asked(path, verify=True))
    assert answer.agrees and answer.checked != answer.inputs
    assert len(captures) == 4


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
