"""`mucc config`, and what build systems make of it: a CMake project and a crate that call a library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mucc.build.toolchain.discover import find_toolchain
from mucc.cli.main import main
from mucc.diagnostics.core import DiagnosticError
from mucc.version import __version__

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "frameworks"
ANSWER = "MU6005: argument 'x' of rms_norm_gain: expected a tensor on a CUDA device"


def has_toolchain() -> bool:
    try:
        find_toolchain()
    except DiagnosticError:
        return False
    return True


def test_folders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == __version__
    assert (Path(found["cmake-dir"]) / "muccConfig.cmake").exists()
    assert (Path(found["include-dir"]) / "mucc" / "abi.h").exists()
    assert main(["config", "--cmake-dir"]) == 0
    assert capsys.readouterr().out == f"{found['cmake-dir']}\n"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command mucc of this checkout."""
    script = tmp_path / "mucc"
    script.write_text(f'#!/bin/sh\nexec env PYTHONPATH="{ROOT}" "{sys.executable}" -m mucc "$@"\n')
    script.chmod(0o755)
    return script


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.skipif(not (shutil.which("cmake") and has_toolchain()), reason="needs CMake and a toolchain")
def test_a_cmake_project(tmp_path: Path, command: Path) -> None:
    folder = ROOT / "mucc" / "library" / "cmake"
    build = tmp_path / "build"
    where = (f"-Dmucc_DIR={folder}", f"-DMUCC_EXECUTABLE={command}")
    made = run("cmake", "-S", EXAMPLES / "cpp", "-B", build, *where)
    assert made.returncode == 0, made.stderr
    made = run("cmake", "--build", build)
    assert made.returncode == 0, made.stdout + made.stderr
    ran = run(build / "norm")
    assert ran.returncode == 0 and (ANSWER in ran.stdout or "right" in ran.stdout)
    before = (build / "rms_norm.mucc" / "librms_norm.so").stat().st_mtime_ns
    assert run("cmake", "--build", build).returncode == 0
    assert (build / "rms_norm.mucc" / "librms_norm.so").stat().st_mtime_ns == before


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mucc_add_library(norms norms.mcu TARGTE sm_80)", "mucc_add_library does not know TARGTE;sm_80"),
        ("find_package(mucc 99 REQUIRED)", 'compatible with requested version "99"'),
    ],
)
def test_what_cmake_is_told(tmp_path: Path, command: Path, line: str, said: str) -> None:
    text = f"cmake_minimum_required(VERSION 3.20)\nproject(p LANGUAGES NONE)\nfind_package(mucc)\n{line}\n"
    (tmp_path / "CMakeLists.txt").write_text(text)
    where = (f"-Dmucc_DIR={ROOT / 'mucc' / 'library' / 'cmake'}", f"-DMUCC_EXECUTABLE={command}")
    made = run("cmake", "-S", tmp_path, "-B", tmp_path / "build", *where)
    assert made.returncode != 0 and said in " ".join(made.stderr.split())


@pytest.mark.skipif(not (shutil.which("cargo") and has_toolchain()), reason="needs cargo and a toolchain")
def test_a_crate(tmp_path: Path, command: Path) -> None:
    crate = shutil.copytree(EXAMPLES / "rust", tmp_path / "frameworks" / "rust", ignore=lambda *_: ["target"])
    shutil.copy(EXAMPLES.parent / "rms_norm.mcu", tmp_path)
    cargo = ("cargo", "run", "--offline", "--quiet", "--manifest-path", crate / "Cargo.toml")
    ran = run(*cargo, MUCC=str(command))
    assert ran.returncode == 0, ran.stderr
    assert ANSWER in ran.stdout or "right" in ran.stdout
