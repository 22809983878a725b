"""How the tests run with a PyTorch whose libraries are not there (`test/tools/torch_matrix.py --cuda`)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
REQUIRED = """filelock
sympy>=1.13.3
cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"
cuda-bindings<14,>=13.0.3; platform_system == "Linux"
nvidia-cudnn-cu13==9.24.0.43; platform_system == "Linux"
triton~=3.8.0; platform_system == "Linux"
pyyaml; extra == "pyyaml"
"""

needs_compiler = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("gcc", "nm", "readelf")), reason="needs gcc and binutils"
)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


def test_what_has_gigabytes_is_not_installed():
    from torch_matrix import pure

    assert pure(REQUIRED) == ["filelock", "sympy>=1.13.3"]


@needs_compiler
def test_libraries_that_are_missing_are_stood_in_for(tmp_path: Path):
    """Functions with a version and without one; what the folder or the machine has stays as it is."""
    from cuda_stand_ins import NO_DEVICE, stand_in

    def build(name: str, source: str, *options: str) -> None:
        (tmp_path / "source.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", f"-Wl,-rpath,{tmp_path}"]
        subprocess.run([*command, "source.c", "-o", name, *options], cwd=tmp_path, check=True)

    (tmp_path / "versions").write_text("DNN_9 { global: named; };\n")
    build("libmuccdnn.so.9", "int named(void) { return 1; }", "-Wl,--version-script=versions")
    build("libmuccplain.so.1", "int bare(void) { return 1; }")
    build("libown.so", "int own(void) { return 7; }")
    calls = "int named(void); int bare(void); int own(void); double cos(double);\n"
    body = "int called(void) { return named() + bare() + own() + (int)cos(0); }\n"
    rest = ("libmuccdnn.so.9", "libmuccplain.so.1", "libown.so", "-lm")
    build("libtorch_python.so", calls + body, *rest)
    for name in ("libmuccdnn.so.9", "libmuccplain.so.1"):
        (tmp_path / name).unlink()
    with pytest.raises(OSError, match="libmucc"):
        ctypes.CDLL(str(tmp_path / "libtorch_python.so"))
    assert stand_in(tmp_path) == ["libmuccdnn.so.9", "libmuccplain.so.1"]
    program = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1], mode=2).called())"
    command = [sys.executable, "-c", program, str(tmp_path / "libtorch_python.so")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) == 2 * NO_DEVICE + 7 + 1
