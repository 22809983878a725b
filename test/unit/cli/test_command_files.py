"""Files that commands write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compiler_stand_in import left, write

from mucc.cli.main import main
from mucc.compiler import files
from mucc.diagnostics import DiagnosticError

pytestmark = pytest.mark.usefixtures("here")


def test_outputs_are_replaced_whole(here: Path, monkeypatch: pytest.MonkeyPatch):
    target = here / "out"
    target.write_text("old")

    def full(source: str, destination: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(DiagnosticError, match="No space left on device"):
        files.write_output(str(target), b"new")
    assert target.read_text() == "old" and left() == {"out"}


def test_an_output_may_be_a_link_or_a_device(here: Path):
    (here / "real").write_text("old")
    (here / "link").symlink_to("real")
    files.write_output("link", b"new")
    assert (here / "link").is_symlink() and (here / "real").read_text() == "new"
    files.write_output("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_rights(here: Path, capsys: pytest.CaptureFixture[str]):
    write("k.mcu")
    (here / "locked").mkdir(mode=0o555)
    write("mine", "x")
    os.chmod("mine", 0o444)
    os.chmod("k.mcu", 0o000)
    assert main(["k.mcu", "--emit=mu"]) == 2 and "MU5011" in capsys.readouterr().err
    os.chmod("k.mcu", 0o644)
    for output in ("locked/out", "mine"):
        assert main(["k.mcu", "--emit=mu", "-o", output]) == 2
        assert "MU5014" in capsys.readouterr().err
