"""`--emit=header`: the text compiles as C99 and as C++, and a C client calls a library through it."""

from __future__ import annotations

import copy
import shutil
import subprocess
from pathlib import Path

import pytest
from hostlib import MANIFEST, host_library

from mucc.library.header import header_text

CLIENT = r"""
#include "kernels.h"
#include <stdio.h>
int main(void) {
  int64_t xs[] = {3, 24}, ws[] = {16, 24}, ys[] = {3, 16};
  float alpha = 0.5f;
  MuccTensor args[4];
  args[0] = mucc_tensor((void*)0x1000, MUCC_BFLOAT, 16, 2, xs, 0);
  args[1] = mucc_tensor((void*)0x2000, MUCC_BFLOAT, 16, 2, ws, 0);
  args[2] = mucc_scalar(&alpha);
  args[3] = mucc_tensor((void*)0x3000, MUCC_FLOAT, 32, 2, ys, 0);
  printf("%d %d\n", (int)mucc_linear_workspace(args, 4), mucc_linear(args, 4, NULL, 0, NULL));
  printf("%d %s\n", mucc_linear(args, 3, NULL, 0, NULL) != 0, mucc_last_error());
  return mucc_manifest()[0] != '{';
}
"""


def test_a_c_client_compiles_and_runs(tmp_path: Path) -> None:
    if not (gcc := shutil.which("gcc")):
        pytest.skip("needs gcc")
    library = host_library()
    (tmp_path / "kernels.h").write_text(header_text(MANIFEST))
    (tmp_path / "client.c").write_text(CLIENT)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = [gcc, *flags, str(tmp_path / "client.c"), str(library), "-o", str(tmp_path / "client")]
    done = subprocess.run(
        [*command, f"-Wl,-rpath,{library.parent}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([tmp_path / "client"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0
    assert ran.stdout == "0 0\n1 MU6001: linear takes 4 arguments (x, w, alpha, y), got 3\n"


def test_it_is_also_cpp_and_may_be_included_twice(tmp_path: Path) -> None:
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    (tmp_path / "kernels.h").write_text(header_text(MANIFEST))
    (tmp_path / "c.cpp").write_text(
        '#include "kernels.h"\n#include "kernels.h"\nint f() { return !&mucc_laid; }\n'
    )
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-address", "-fsyntax-only"]
    done = subprocess.run([gxx, *flags, str(tmp_path / "c.cpp")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_tells_every_argument_and_promise() -> None:
    text = header_text(MANIFEST)
    for part in (
        "linear[M, N, K](x: bf16[M, K], w: bf16[N, K], alpha: f32) -> f32[M, N]",
        "args[2]  alpha: f32",
        "c: f16[B, K, 8] col_major",
        "v: f16[B, K] strides(_, 1)",
        "needs K % 8 == 0 (TMA needs 16-byte rows of x)",
        "It needs no workspace: pass NULL and 0.",
        "int mucc_laid(const MuccTensor* args, int n, void* workspace, size_t bytes, void* stream);",
    ):
        assert part in text


def test_a_comment_cannot_be_closed_from_inside() -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["kernels"][0]["promises"][0]["why"] = "*/ int evil; /*"
    assert "*/ int evil" not in header_text(manifest)
