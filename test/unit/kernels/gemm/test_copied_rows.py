"""The copies of A by threads (mucc/copied.cuh), run on the host: see copied_rows.cpp. Needs g++, no GPU."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mucc.files.package import header_path

PROGRAM = Path(__file__).parent / "copied_rows.cpp"


def _between(text: str, first: str, last: str) -> str:
    """Return the lines of a text from `first` to before `last`."""
    begin = text.index(first)
    return text[begin : text.index(last, begin)]


def test_tiles_have_zeros_outside_of_a(tmp_path: Path) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    header = Path(header_path("copied.cuh")).read_text(encoding="utf-8")
    copy = _between(
        header, "template <int kBytes>\nCUTLASS_DEVICE void copy_or_clear", "// `kBytes` are copied"
    )
    copy, replaced = re.subn(
        r'asm volatile\("cp\.async.*?"memory"\);', "copy(to, from, kBytes, wanted);", copy, flags=re.DOTALL
    )
    assert replaced == 2
    constants = _between(header, "static constexpr int kM =", "  struct Arguments")
    constants = re.sub(r"static_assert\(cute::is_same_v.*?\);\n", "", constants)
    copies = _between(header, "  template <int kFirst,", "};\n\n}  // namespace mucc::gemm")
    text = PROGRAM.read_text(encoding="utf-8")
    for name, lines in (("COPY", copy), ("CONSTANTS", constants), ("COPIES", copies)):
        text, replaced = re.subn(rf"^ *{name}$", lambda _, lines=lines: lines, text, flags=re.MULTILINE)
        assert replaced == 1
    (source := tmp_path / "copied_rows.cpp").write_text(text, encoding="utf-8")
    binary = tmp_path / "copied"
    built = subprocess.run(
        [gxx, "-std=c++20", "-O1", "-w", str(source), "-o", str(binary)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    run = subprocess.run([str(binary)], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout
