"""`mucc import` as a command: its files, messages and exit status."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from problemlib import PROBLEMS

pytest.importorskip("torch", reason="needs torch")


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
