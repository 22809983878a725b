"""`mucc-opt` with outputs that cannot be written, and specifications that cannot be read."""

from __future__ import annotations

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


@pytest.mark.parametrize(("path", "status"), [("no/such/to.mlir", 2), (".", 2), ("/dev/full", 3)])
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
    assert capsys.readouterr().err.startswith("mucc-opt: error: ")
