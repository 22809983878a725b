"""Kernels of a model before its first call: traced on fake tensors, built, and packed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import tunelib

from mucc.build.artefact import Artefact
from mucc.build.artefact import Request as Build
from mucc.cli.main import main
from mucc.database.store import Store
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.frontend.source import kernel_text
from mucc.target.devices import get_card
from mucc.torch.backend import bundle as module
from mucc.torch.importer import sandbox
from mucc.torch.importer.request import Answer, KernelProgram, Request, Tracing

torch: Any = pytest.importorskip("torch", reason="needs torch")

FILE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.to(torch.bfloat16)

    def forward(self, x):
        return nn.functional.gelu(self.up(x))

def get_inputs():
    return [torch.rand(8192, 1024).bfloat16()]

def get_init_inputs():
    return [1024]
"""

PROGRAM = "kernel k[M](x: f32[M]) -> f32[M] {\n    return relu(x)\n}\n"


pytestmark = pytest.mark.usefixtures("compiled_anew")


def kernels(mode: str = "default", trains: bool = False) -> list[KernelProgram]:
    from mucc.torch.importer.child import serve

    request = Request.of("model.py", FILE, tracing=Tracing("h100_sxm", mode, trains))
    return serve(Request.from_json(json.loads(json.dumps(request.to_json())))).kernels


def test_a_model_is_traced_without_a_gpu_and_without_memory():
    (kernel,) = kernels()
    assert "bf16[8192, 1024]" in kernel.text and "gelu" in kernel.text
    assert kernel.target == "sm_90a"


def test_kernels_are_those_that_torch_compile_asks_for(monkeypatch: pytest.MonkeyPatch):
    from mucc.torch.backend.backend import torch_backend
    from mucc.torch.backend.expected import Costs, Predicted

    # At sizes that an interpreter can compute no kernel gains anything.
    monkeypatch.setattr(Costs, "_predicted", lambda *_: Predicted(0.0))
    small = FILE.replace("1024", "16").replace("8192", "8")
    monkeypatch.setitem(globals(), "FILE", small)
    names: dict[str, Any] = {}
    exec(small, names)
    backend = torch_backend(interpret=True, fallback="error")
    with torch.no_grad():
        torch.compile(names["Model"](16), backend=backend)(*names["get_inputs"]())
    taken = [kernel_text(k.op) for p in backend.programs for k in p.kernels]
    assert taken and [k.text for k in kernels()] == taken


def test_modes_that_measure_list_what_they_would_measure():
    assert len(kernels("max-autotune")) > len(kernels())


def test_forward_and_backward_are_traced():
    names = [k.text.partition("(")[0] for k in kernels(trains=True)]
    assert names and all(n.startswith("kernel ") for n in names)


def test_unknown_cards_are_refused():
    with pytest.raises(DiagnosticError, match="MU5401"):
        from mucc.torch.importer.child import serve

        serve(Request.of("model.py", FILE, tracing=Tracing("h1000")))


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A problem file whose kernels are known, and builds that run no compiler."""
    monkeypatch.setenv("MUCC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "none.db"))
    answer = Answer(kernels=[KernelProgram(PROGRAM, "sm_90a", {"M": 64}), KernelProgram("bad", "sm_90a", {})])
    monkeypatch.setattr(sandbox, "run", lambda *_: answer)

    def built(request: Build, *_: object, **__: object) -> Artefact:
        if request.data == b"bad":
            raise DiagnosticError(Diagnostic("MU5201", "nvcc failed"))
        return Artefact(b"library", (), cached=False)

    monkeypatch.setattr(module, "build", built)
    monkeypatch.setattr(module, "build_into", built)
    path = tmp_path / "model.py"
    path.write_text(FILE)
    return path


def test_the_command_fills_the_cache(traced: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bundle", str(traced), "--device", "h100_sxm"]) != 0, "one kernel does not compile"
    said = capsys.readouterr().err
    assert "model.py: 1 kernel for h100_sxm, 1 built now" in said and "MU5201" in said


def test_the_command_packs_a_folder(traced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    main(["bundle", str(traced), "-o", str(tmp_path / "packed"), "--train"])
    contents = json.loads((tmp_path / "packed" / "bundle.json").read_text())
    assert contents["card"] == "h200" and contents["trains"] and contents["kernels"][0] == PROGRAM
    assert f"MUCC_CACHE_SHARED to {tmp_path / 'packed'}" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(traced: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bundle", str(traced), "-o", str(traced)]) == 3
    said = capsys.readouterr().err
    assert f"MU5203]: '{traced}' cannot be written" in said and "kernel" not in said


def test_measurements_that_cannot_be_written_leave_no_database(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("MUCC_TUNING_DB", str(tmp_path / "own.db"))
    kernel = tunelib.planned(tunelib.TEXT, budget=1).kernels[0]
    measured = tunelib.record(kernel, kernel.sizes[0], kernel.candidates[0], 5.0)
    card = get_card("h100_sxm")
    with Store() as store:
        store.merge([dataclasses.replace(measured, target=card.target.name, card=card.device.name)])

    def full(store: Store, records: object) -> None:
        raise DiagnosticError(Diagnostic("MU5308", "database or disk is full"))

    monkeypatch.setattr(Store, "merge", full)
    folder = tmp_path / "packed"
    assert main(["bundle", str(traced), "-o", str(folder), "--device", "h100_sxm"]) == 3
    assert f"error[MU5203]: '{folder}' cannot be written: database or disk is full" in capsys.readouterr().err
    assert not [path for path in folder.iterdir() if path.name.startswith("tuning.db")]


def test_a_model_that_cannot_be_traced_leaves_no_folder(
    traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> Answer:
        raise DiagnosticError(Diagnostic("MU7012", "the problem file raised SystemExit: 3"))

    monkeypatch.setattr(sandbox, "run", fails)
    (kept := tmp_path / "kept").mkdir()
    for folder in (tmp_path / "packed", kept):
        assert main(["bundle", str(traced), "-o", str(folder)]) == 1
    assert kept.exists() and not (tmp_path / "packed").exists()


def test_wrong_use(traced: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["bundle"]) == 2
    assert main(["bundle", str(traced), "--jobs", "0"]) == 2
    assert main(["bundle", str(traced), "--device", "h1000"]) == 2
    assert "MU5401" in capsys.readouterr().err


def test_a_model_without_kernels_says_so(
    traced: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sandbox, "run", lambda *_: Answer())
    assert main(["bundle", str(traced)]) == 0
    assert "MU7064" in capsys.readouterr().err
