"""Bounds of modules of which PyTorch runs a part: counted where it is understood, named where it is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mucc.agent.audit.bound import lowest
from mucc.agent.audit.observations import Bound
from mucc.agent.audit.verdict import Verdict
from mucc.agent.core.strategy import Budget
from mucc.agent.core.tasks import Imported, Task
from mucc.agent.engine.limits import reason_to_stop
from mucc.agent.profile.classes import classify
from mucc.agent.propose.llm import sol_text
from mucc.analysis import sol_report
from mucc.analysis.bound import DRAM
from mucc.analysis.sol import Sol
from mucc.cli.main import main
from mucc.diagnostics import DiagnosticError
from mucc.sol.program import analyse_import
from mucc.target.devices import cards
from mucc.torch.importer.request import Answer, OperationRow

H200 = cards()["h200"]
TEXT = "kernel m[N=4096](x: bf16[N, N]) -> bf16[N, N] { return x @ x }"
PRODUCT = 2 * 4096**3


def row(
    operation: str, units: dict[str, int] | None, moved: int = 0, **others: dict[str, int]
) -> OperationRow:
    """The row of an operation that PyTorch runs."""
    counts = None if units is None else {"declared": units, "tf32": units, "f32": units, **others}
    return OperationRow("x", operation, None, "", 0, 0, counts, moved)


def bounded(*rows: OperationRow, text: str = TEXT) -> Sol:
    kernel = [OperationRow("y", "aten.mm.default", "m", None, 0, 0)] if text else []
    return analyse_import(Answer(text=text, rows=[*kernel, *rows]), "m", "m.py", H200)


def test_what_is_understood_is_added_up():
    alone, found = bounded(), bounded(row("aten.sort.default", {"fp32": 10**12, "tensor.bf16": PRODUCT}, 999))
    amounts = {x.unit: x.amount for x in found.bound.limits}
    assert amounts["tensor.bf16"] == 2 * PRODUCT and amounts["fp32"] == 10**12
    assert amounts[DRAM] == 2 * 2 * 4096 * 4096 + 999
    assert found.bound.seconds == pytest.approx(max(2 * alone.bound.seconds, 1e12 / 67e12))
    assert found.is_whole and not alone.has_calls
    report = sol_report.as_json(found, measured_ms=50.0, baseline_ms=100.0)
    assert report["whole"] and report["gap"] > 1 and 0.5 < report["score"] < 1


def test_products_of_f32_have_a_bound_in_each_arithmetic():
    one = row("aten.lstm.input", {"tensor.tf32": 10**12}, f32={"fp32": 10**12})
    found = bounded(one)
    assert [a.name for a in found.assumptions] == [
        "as declared",
        "f32 products in tf32",
        "f32 products in f32",
    ]
    declared, tf32, full = (a.bound for a in found.assumptions)
    assert declared == tf32 and tf32.limit("tensor.tf32").amount == 10**12  # pyright: ignore[reportOptionalMemberAccess]
    assert full.limit("fp32").amount == 10**12  # pyright: ignore[reportOptionalMemberAccess]
    assert full.limit("tensor.bf16").amount == PRODUCT  # pyright: ignore[reportOptionalMemberAccess]


def test_a_module_without_kernels_has_a_bound():
    found = bounded(row("aten.gru.input", {"tensor.tf32": 494_500_000_000}), text="")
    assert found.bound.seconds == pytest.approx(1e-3) and found.bound.binding == "tensor.tf32"
    with pytest.raises(DiagnosticError, match="MU5409"):
        bounded(row("aten._linalg_svd.default", None), text="")


def test_what_is_not_understood_is_named():
    found = bounded(row("aten.topk.default", {"fp32": 5}), row("aten._linalg_svd.default", None, 4096))
    assert not found.is_whole and found.missing == ("aten._linalg_svd.default",)
    assert not found.hints and found.score(1.0, 2.0) != found.score(1.0, 2.0)
    text = sol_report.as_text(found, measured_ms=5.0, baseline_ms=6.0)
    assert "bound at least" in text and "not counted: aten._linalg_svd.default" in text
    assert "of which a part is not counted" in text and "SOL score" not in text
    report = sol_report.as_json(found, measured_ms=5.0, baseline_ms=6.0)
    assert report["whole"] is False and report["missing"] == ["aten._linalg_svd.default"]
    assert report["gap"] is None and "score" not in report
    # Nothing is faster than the part that is counted.
    assert list(sol_report.warnings(found, 0.01)) and not list(sol_report.warnings(found, 5.0))


def test_a_part_is_a_floor_for_the_agent_and_no_measure_of_what_is_left():
    report = sol_report.as_json(bounded(row("aten._linalg_svd.default", None)))
    bound = lowest(report, "declared")
    assert bound is not None and not bound.whole
    task = Task(
        "t", "t.py", "", "declared", "h200", "sm_90a", Imported("m"), report, None, {"default": 9.0}, bound.ms
    )
    assert task.floor_ms == bound.ms and classify(report, 1.0) is None
    assert "bound at least" in sol_text.report(report) and "svd" in sol_text.report(report)
    assert reason_to_stop(Budget(epsilon=0.25), task, [], [], 0.0) == ""
    verdict = Verdict("p", "s", "cuda", "h200", "declared", 1, time_ms=2.0, bound=Bound(1.0, "", False))
    assert verdict.gap is None and verdict.to_json()["bound_whole"] is False
    assert "bound at least 1 ms" in verdict.as_text()
    whole = Verdict("p", "s", "cuda", "h200", "declared", 1, time_ms=2.0, bound=Bound(1.0))
    assert whole.gap == 2.0 and "at least" not in whole.as_text()


def test_a_recurrent_module_is_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("torch")
    file = tmp_path / "Recurrent.py"
    file.write_text(
        "import torch\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.f = torch.nn.LSTM(n, 2 * n, batch_first=True)\n"
        "    def forward(self, x, h, c):\n"
        "        return self.f(x, (h, c))[0]\n"
        "def get_inputs():\n"
        "    return [torch.rand(3, 4, 8), torch.rand(1, 3, 16), torch.rand(1, 3, 16)]\n"
        "def get_init_inputs():\n"
        "    return [8]\n"
    )
    assert main(["sol", str(file), "--json"]) == 0
    out = capsys.readouterr()
    report = json.loads(out.out)
    assert report["whole"] and "MU5409" not in out.err
    amounts = {unit: limit["amount"] for unit, limit in report["limits"].items()}
    assert amounts["tensor.tf32"] == 2 * 12 * 4 * 16 * (8 + 16)
    read = 3 * 4 * 8 + 2 * 3 * 16 + 64 * (8 + 16 + 2)
    assert amounts["dram"] == 4 * (read + 3 * 4 * 16)
    assert report["assumptions"]["f32 products in f32"]["limits"]["fp32"]["amount"] > amounts["tensor.tf32"]
