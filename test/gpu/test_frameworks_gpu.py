"""Kernels in other frameworks: each example of examples/frameworks checks its own results."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mucc
from mucc.cli.config import folders

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "frameworks"


def run(*command: str | Path, **environment: str) -> str:
    """What a command prints; fails with its errors."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def needs(*modules: str) -> None:
    for name in modules:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_jax() -> None:
    needs("jax", "jax_tvm_ffi")
    assert "in jitted code" in run(
        sys.executable, EXAMPLES / "jax_norm.py", XLA_PYTHON_CLIENT_PREALLOCATE="false"
    )


def test_cupy() -> None:
    needs("cupy")
    assert "on a stream" in run(sys.executable, EXAMPLES / "cupy_norm.py")


def test_torch_packages(tmp_path: Path) -> None:
    needs("torch")
    assert "AOTInductor: largest error" in run(sys.executable, EXAMPLES / "torch_package.py", tmp_path)


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command mucc of this checkout."""
    script = tmp_path / "mucc"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mucc "$@"\n')
    script.chmod(0o755)
    return script


def test_cmake(tmp_path: Path, command: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    where = (f"-Dmucc_DIR={folders()['cmake-dir']}", f"-DMUCC_EXECUTABLE={command}")
    run("cmake", "-S", EXAMPLES / "cpp", "-B", tmp_path / "build", *where)
    run("cmake", "--build", tmp_path / "build")
    assert "right: largest error" in run(tmp_path / "build" / "norm")


def test_plain_cxx(tmp_path: Path) -> None:
    """The C++ program without CMake."""
    source = EXAMPLES.parent / "rms_norm.mcu"
    run(sys.executable, "-m", "mucc", source, "-o", tmp_path / "librms_norm.so")
    run(sys.executable, "-m", "mucc", source, "-o", tmp_path / "rms_norm.h")
    library = (tmp_path / "librms_norm.so", f"-Wl,-rpath,{tmp_path}", "-ldl")
    run(
        "g++", "-std=c++17", f"-I{tmp_path}", EXAMPLES / "cpp" / "main.cpp", *library, "-o", tmp_path / "norm"
    )
    assert "right: largest error" in run(tmp_path / "norm")


def test_rust(tmp_path: Path, command: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    manifest = EXAMPLES / "rust" / "Cargo.toml"
    cargo = ("cargo", "run", "--offline", "--quiet", "--manifest-path", manifest)
    assert "right: largest error" in run(*cargo, MUCC=str(command), CARGO_TARGET_DIR=str(tmp_path))


def test_numpy_is_told_what_to_do() -> None:
    numpy = pytest.importorskip("numpy")
    kernel = mucc.compile((EXAMPLES.parent / "rms_norm.mcu").read_text()).rms_norm_gain
    x, gain = numpy.zeros((4, 8), "f4"), numpy.zeros(8, "f4")
    for call in (lambda: kernel(x, gain), lambda: kernel.launch(x, gain, x)):
        with pytest.raises(mucc.runtime.MuccError, match=r"MU6041.*main memory.*cuda"):
            call()
