"""What `make test` installs: the Makefile runs, with a Python that writes down what it is asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from processes import HANG

ROOT = Path(__file__).parents[3]
PYTHON = """#!/bin/sh
echo "python $*" >> asked
case "$*" in
  *"import torch"*) test -e has_torch ;;
  *"pip show"*) test -e has_toolkit ;;
  *"torch=="*) test ! -e offline && touch has_torch ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile with an environment whose Python only pretends."""
    if not shutil.which("make") or not shutil.which("g++"):
        pytest.skip("needs make and g++")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON)
    python.chmod(0o755)
    return tmp_path


def make(checkout: Path, *arguments: str) -> tuple[str, list[str]]:
    """What make says, and what it installs."""
    (checkout / "asked").write_text("")
    command = ["make", "--no-print-directory", "build/stamps/torch", *arguments]
    # As from a shell, also where make runs the tests.
    env = {
        name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
    }
    done = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, timeout=HANG, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, [
        line for line in (checkout / "asked").read_text().splitlines() if " install " in line
    ]


def test_the_tests_start_with_torch():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("test", "test-all", "pytest"):
        assert f"\n{target}: $(STAMPS)/torch ##" in makefile
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec make test"


def test_without_a_gpu_torch_for_the_cpu_is_installed_once(checkout: Path):
    _, installed = make(checkout, "GPU=")
    assert [line.split(" -e ")[-1].split()[0] for line in installed[:2]] == [".[nvcc]", ".[dev]"]
    assert "-c constraints.txt" in installed[0], "a fresh environment gets the release that was measured"
    assert "torch==2.13.0+cpu" in installed[2] and len(installed) == 3
    assert make(checkout, "GPU=") == ("make: 'build/stamps/torch' is up to date.\n", [])


def test_a_torch_or_toolkit_that_is_there_is_kept(checkout: Path):
    (checkout / "has_torch").touch()
    (checkout / "has_toolkit").touch()
    _, installed = make(checkout, "GPU=")
    assert len(installed) == 2 and not any("constraints" in line for line in installed)


def test_with_a_gpu_nothing_large_is_installed_unasked(checkout: Path):
    said, installed = make(checkout, "GPU=/dev/nvidiactl")
    assert len(installed) == 2 and ".venv/bin/pip install torch" in said and "skipped" in said


def test_without_a_network_it_goes_on_and_tries_again(checkout: Path):
    (checkout / "offline").touch()
    said, _ = make(checkout, "GPU=")
    assert "what needs it is skipped" in said and not (checkout / "build/stamps/torch").exists()
    (checkout / "offline").unlink()
    make(checkout, "GPU=")
    assert (checkout / "build/stamps/torch").exists()
