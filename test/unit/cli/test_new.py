"""`mucc new`, and manual pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from mucc.cli.main import main
from mucc.cli.registry import MUCC
from mucc.compiler import files
from mucc.diagnostics.usage import usage_error

ROOT = Path(__file__).parents[3]


def test_a_new_project_passes_its_own_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "scaled_gelu"], MUCC) == 0
    project = tmp_path / "scaled_gelu"
    program = str(project / "kernels" / "scaled_gelu.mcu")
    assert main(["check", program], MUCC) == 0
    assert main(["fmt", "--check", program], MUCC) == 0
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "scaled_gelu"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not pytorch"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout + done.stderr
    for script in ("tests/test_scaled_gelu.py", "benchmarks/bench_scaled_gelu.py"):
        compile((project / script).read_text(), script, "exec")


@pytest.mark.parametrize("name", ["", "2x", "a-b", "kernel", "../x", "ä", "stage", "class", "a" * 101])
def test_odd_names_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: object):
    monkeypatch.chdir(tmp_path)
    assert main(["new", name], MUCC) == 2
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k").mkdir()
    assert main(["new", "k"], MUCC) == 2
    assert main(["new", "k", "--folder", "other/place"], MUCC) == 0
    assert (tmp_path / "other" / "place" / "kernels" / "k.mcu").exists()
    (tmp_path / "file").touch()
    assert main(["new", "k", "--folder", "file/x"], MUCC) == 2


def test_what_ends_halfway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write, given = files.write_output, list[str]()

    def full(path: str, data: bytes) -> None:
        given.append(path)
        if len(given) == 3:
            raise usage_error("no space left", "free some")
        write(path, data)

    monkeypatch.setattr(files, "write_output", full)
    assert main(["new", "k"], MUCC) == 2
    assert len(given) == 3 and list(tmp_path.iterdir()) == []


def test_manual_pages_tell_of_every_command_and_option(tmp_path: Path):
    assert main(["docs", "--man", str(tmp_path / "man1")], MUCC) == 0
    pages = {path.name: path.read_text() for path in (tmp_path / "man1").iterdir()}
    assert pages.keys() == {"mucc.1"} | {f"mucc-{name}.1" for name in MUCC.commands}
    assert "\\-\\-save\\-temps" in pages["mucc-build.1"] and "GPU to compile for" in pages["mucc-build.1"]
    assert all(f"mucc-{name}" in pages["mucc.1"] for name in MUCC.commands)
    if man := shutil.which("mandoc") or shutil.which("groff"):
        flags = ["-Tlint"] if man.endswith("mandoc") else ["-man", "-ww", "-Tutf8"]
        for name in pages:
            done = subprocess.run(
                [man, *flags, str(tmp_path / "man1" / name)], capture_output=True, text=True
            )
            assert not done.stderr, (name, done.stderr)


def test_all_explanations_are_the_page_of_errors(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "--all"], MUCC) == 0
    printed = capsys.readouterr().out
    assert main(["docs", "--errors"], MUCC) == 0
    assert printed == capsys.readouterr().out and "MU3075" in printed
    assert main(["explain", "--all", "MU3004"], MUCC) == 2
