"""`mucc-opt` with outputs that cannot be written, and specifications that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mucc.cli.opt import main

MODULE = "builtin.module {\n}\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "k.mlir"
    path.write_text(MODULE)
    return path


def test_a_file_is_written_whole_or_not_at_all(source: Path, tmp_path: Path):
    to, bad = tmp_path / "to.mlir", tmp_path / "bad.mlir"
    bad.write_text(f"{MODULE}// -----\nnonsense {{")
    assert main([str(source), "-o", str(to)]) == 0
    assert to.read_text().strip() == MODULE.strip()
    to.write_text("kept")
    assert main([str(bad), "--split-input-file", "-o", str(to)]) == 1
    assert to.read_text() == "kept"
    assert main([str(source), "-o", str(source)]) == 0
    assert source.read_text().strip() == MODULE.strip()


@pytest.mark.parametrize(("path", "status"), [("no/such/to.mlir", 2), (".", 2), ("/dev/full", 2)])
def test_outputs_that_cannot_be_written(
    source: Path, tmp_path: Path, path: str, status: int, capsys: pytest.CaptureFixture[str]
):
    assert main([str(source), "-o", str(tmp_path / path)]) == status
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("given", [["-p", "decompose{x="], ["-t", "mlir{"]])
def test_specifications_that_cannot_be_read(
    source: Path, given: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([str(source), *given]) == 2
    assert capsys.readouterr().err.startswith("error[MU5001]: ")


@pytest.mark.parametrize(
    ("text", "given", "code", "status", "line"),
    [
        (f"{MODULE}// -----\nmu.nonsense", ["--split-input-file"], "MU5022", 1, 4),
        ('builtin.module {\n  %x = "mu.relu"() : () -> f32\n}\n', [], "MU5023", 1, None),
        (MODULE, ["--no-such-option"], "MU5001", 2, None),
        (MODULE, ["-p", "form-stage"], "MU5001", 2, None),
        (MODULE, ["-o", "no/such/to.mlir"], "MU5012", 2, None),
    ],
)
def test_every_error_has_a_code_a_status_and_a_form_for_programs(
    source: Path,
    text: str,
    given: list[str],
    code: str,
    status: int,
    line: int | None,
    capsys: pytest.CaptureFixture[str],
):
    source.write_text(text)
    assert main([str(source), *given, "--diagnostics=json"]) == status
    (error,) = json.loads(capsys.readouterr().err)
    assert error["code"] == code and (line is None or error["span"]["line"] == line)
    assert main([str(source), *given]) == status
    assert f"error[{code}]: " in capsys.readouterr().err


def test_errors_of_programs_keep_their_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "k.mcu"
    path.write_text("kernel k[M](x: f32[M]) -> f32[M] { return reul(x) }")
    assert main([str(path), "--diagnostics=json"]) == 1
    (error,) = json.loads(capsys.readouterr().err)
    assert error["code"] == "MU1002" and error["span"]["file"] == str(path) and error["fixes"]


def test_a_missing_input_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name, code in (("gone.mlir", "MU5010"), (".", "MU5011")):
        assert main([str(tmp_path / name)]) == 2
        assert f"error[{code}]" in capsys.readouterr().err
