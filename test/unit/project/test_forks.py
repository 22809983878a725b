"""Tests in forks: `pytest --forks N` reports what the tests of each did, also of one that ended."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

TEST = Path(__file__).parents[2]

TESTS = """
import os, warnings
import pytest

@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    yield tmp_path_factory.mktemp("session")
    (tmp_path_factory.getbasetemp() / "torn down").touch()

def test_folders(folder, tmp_path):
    assert folder.parent == tmp_path.parent and folder.parent.name.startswith("fork")

def test_warns():
    warnings.warn("beware")

def test_output(capfd):
    print("here", flush=True)
    os.system("echo there")
    assert capfd.readouterr().out == "here\\nthere\\n"

def test_ends():
    if "ends" in __file__:
        os._exit(3)

def test_fails():
    print("said before")
    assert "fails" not in __file__

def test_skips():
    pytest.skip("no reason")
"""


def run(folder: Path, *options: str) -> tuple[int, str]:
    """Run the tests of a folder in two forks, and return the status and what was printed."""
    shutil.copy(TEST / "conftest.py", folder / "conftest.py")
    command = [sys.executable, "-m", "pytest", "-q", "--forks", "2", "-p", "no:cacheprovider", *options]
    own = [f"--rootdir={folder}", f"--basetemp={folder / 'base'}", "-c", "/dev/null"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TEST.parent), str(TEST / "lib")])}
    done = subprocess.run([*command, *own, str(folder)], capture_output=True, text=True, env=env, check=False)
    return done.returncode, done.stdout + done.stderr


def test_reports_of_all_files_arrive(tmp_path: Path):
    for name in ("ends", "fails", "passes"):
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    status, said = run(tmp_path)
    assert status == 1 and "2 failed, 13 passed, 3 skipped, 3 warnings" in said, said
    assert sorted(re.findall(r"^FAILED .*test_(\w+)\.py::(\w+)", said, re.MULTILINE)) == [
        ("ends", "test_ends"),
        ("fails", "test_fails"),
    ]
    assert "the process that ran this test ended with status 3" in said
    assert "said before" in said and said.count("UserWarning: beware") == 3
    ended = {path.parent.name for path in tmp_path.rglob("torn down")}
    assert len(ended) == 2 and all(name.startswith("fork") for name in ended)


def test_it_stops_where_pytest_is_to_stop(tmp_path: Path):
    (tmp_path / "test_fails.py").write_text(TESTS)
    status, said = run(tmp_path, "-x")
    assert status == 1 and "1 failed, 4 passed" in said and "stopping after 1 failures" in said, said
