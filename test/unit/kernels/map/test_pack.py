"""The kernels that move tensors (pack.cuh, pack_planes.cuh), run on the host: pack.cpp. Needs g++, no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.host.program import INCLUDE
from mucc.files.package import INCLUDES, header_path

PROGRAM = Path(__file__).parent / "pack.cpp"


def test_tensors_are_moved_whatever_their_alignment(tmp_path: Path) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    text = Path(header_path("pack.cuh")).read_text(encoding="utf-8")
    text, replaced = re.subn(r"MUCC_DEVICE void read_aligned.*?\n}\n", "", text, flags=re.DOTALL)
    assert replaced == 1
    header, binary = tmp_path / "pack.cuh", tmp_path / "pack"
    header.write_text(text.replace("#include <mucc/view.cuh>", ""), encoding="utf-8")
    planes = tmp_path / "pack_planes.cuh"
    text = Path(header_path("pack_planes.cuh")).read_text(encoding="utf-8")
    planes.write_text(text.replace("#include <mucc/pack.cuh>", ""), encoding="utf-8")
    included = [f"-I{path}" for path in (*INCLUDES, INCLUDE)]
    command = [gxx, "-std=c++20", "-O1", "-pthread", "-Wno-unknown-pragmas", *included]
    built = subprocess.run(
        [*command, f'-DPACK="{header}"', f'-DPLANES="{planes}"', str(PROGRAM), "-o", str(binary)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    run = subprocess.run([str(binary)], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stdout
