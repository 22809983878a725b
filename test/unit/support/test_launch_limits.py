"""The limit of a launch, 2^31 - 1 blocks, by which launches of all kinds of kernels refuse a call."""

import shutil
import subprocess
from pathlib import Path

import pytest

from mucc.files.package import SUPPORT

PROGRAM = """
#include <mucc/check.h>
using namespace mucc;
constexpr ArgSpec args[] = {tensor_in("x", kS32, {fixed(3)}, row_major(), 4)};
constexpr Kernel k{"f", args, none, none, nullptr, nullptr};
int main() {
  Call const c(k);
  for (int64_t blocks : {int64_t(0), int64_t(INT32_MAX), int64_t(INT32_MAX) + 1})
    std::printf("%s\\n", check_blocks(c, "out", blocks) ? last_error.text : "good");
}
"""


def test_more_blocks_than_a_launch_has_are_an_error(tmp_path: Path) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    (tmp_path / "a.cpp").write_text(PROGRAM)
    command = [gxx, "-std=c++17", "-Wall", "-Werror", f"-I{SUPPORT}/include", "a.cpp", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "a"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines == ["good", "good", "MU6007: f, stage out: too many results for one launch"]
