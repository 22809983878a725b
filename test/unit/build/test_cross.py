"""Libraries for a host with another processor: what is missing is named, and what is built runs there."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mucc.build import artefact
from mucc.build.artefact import Request, build, decisive_flags
from mucc.build.pool import Pool
from mucc.build.toolchain import discover
from mucc.build.toolchain.discover import Tool, Toolchain, find_toolchain, library_directory, other_host
from mucc.build.toolchain.flags import HOSTS
from mucc.cli.main import main
from mucc.diagnostics.core import DiagnosticError
from mucc.library.errors import MuccRuntimeError
from mucc.runtime.elf import read_manifest

OTHER = next(host for host in HOSTS if other_host(host))

PROGRAM = "kernel add[N](x: f32[N], y: f32[N]) -> f32[N] { return x + y }"

CALLER = """\
#include <cstdio>
#include "add.h"

int main() {
    float data[4] = {};
    int64_t shape[1] = {4};
    MuccTensor one{data, {MUCC_DEVICE_CPU, 0}, 1, {MUCC_FLOAT, 32, 1}, shape, nullptr, 0};
    MuccTensor args[3] = {one, one, one};
    int status = mucc_add(args, 3, nullptr, 0, nullptr);
    std::printf("%d %s\\n", status, mucc_last_error());
}
"""


def request(**options: bool) -> Request:
    return Request(PROGRAM.encode(), "add.mcu", host=OTHER, **options)


def tool(path: Path) -> Tool:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho 12.2.0\n")
    path.chmod(0o755)
    return Tool(str(path), "test")


@pytest.fixture
def toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A toolkit without the runtime for the other host, and a compiler for it on PATH."""
    nvcc = tool(tmp_path / "cuda/bin/nvcc")
    tool(tmp_path / f"bin/{OTHER}-g++")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("MUCC_CROSS_CUDART", raising=False)
    monkeypatch.setattr(discover, "find_nvcc", lambda explicit=None: nvcc)
    monkeypatch.setattr(discover, "find_cutlass", lambda: Tool(str(tmp_path), "test"))
    return tmp_path


def archive(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "libcudart_static.a").write_bytes(b"!<arch>\n")
    return folder


def code(call: Callable[[], object]) -> str:
    with pytest.raises(DiagnosticError) as caught:
        call()
    return caught.value.diagnostics[0].code


def test_the_compiler_for_the_other_host_is_missing(toolkit: Path) -> None:
    (toolkit / f"bin/{OTHER}-g++").unlink()
    assert code(lambda: find_toolchain(None, OTHER)) == "MU5196"


def test_the_runtime_for_the_other_host_is_missing(toolkit: Path) -> None:
    archive(toolkit / "cuda/lib64")  # that of this machine is no use
    assert code(lambda: find_toolchain(None, OTHER)) == "MU5197"


@pytest.mark.parametrize("where", ["variable", "toolkit"])
def test_the_runtime_is_found(where: str, toolkit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = archive(toolkit / ("own" if where == "variable" else f"cuda/targets/{HOSTS[OTHER]}/lib"))
    if where == "variable":
        monkeypatch.setenv("MUCC_CROSS_CUDART", str(folder))
    toolchain = find_toolchain(None, OTHER)
    assert toolchain.cross == OTHER and library_directory(toolchain.nvcc, OTHER) == str(folder)
    assert toolchain.tools()["cudart"] == str(folder)
    assert toolchain.versions()[2] == f"12.2.0 for {OTHER}"
    assert discover.present_versions(None, OTHER)[2] == f"12.2.0 for {OTHER}"


def test_this_machine_is_no_other_host() -> None:
    assert other_host(f"{platform.machine()}-linux-gnu") == ""
    assert find_toolchain(None, f"{platform.machine()}-linux-gnu").cross == ""


def test_libraries_of_hosts_are_told_apart_in_the_cache() -> None:
    native = Request(PROGRAM.encode(), "add.mcu")
    assert decisive_flags(request()) != decisive_flags(native)


@pytest.mark.parametrize("option", ["plain", "lines", "remote"])
def test_builds_that_are_for_this_machine_only(
    option: str, toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = tool(toolkit / "bin/tool")

    def given(nvcc: str | None, host: str) -> Toolchain:
        return Toolchain(same, same, same, host)

    def nothing(_: object) -> None: ...

    monkeypatch.setattr(artefact, "find_toolchain", given)
    monkeypatch.setattr("mucc.build.toolchain.release.inconsistency", nothing)
    monkeypatch.setattr("mucc.build.toolchain.nvrtc_worker.shared.start", lambda: None)
    options = {} if option == "remote" else {option: True}
    pool = Pool(1)
    pool.remote = option == "remote"
    with pool:
        assert code(lambda: build(request(cached=False, **options), pool=pool)) == "MU5198"


def test_hosts_that_are_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "add.mcu").write_text(PROGRAM)
    assert main(["build", str(tmp_path / "add.mcu"), "--host", "sparc-sun-solaris"]) == 2
    said = capsys.readouterr().err
    assert "MU5001" in said and all(host in said for host in HOSTS)


@pytest.mark.nvcc
@pytest.mark.long
def test_a_library_for_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file says its processor, this machine refuses it, and under emulation its host code runs."""
    if not (discover.find_nvcc() and discover.find_cutlass() and discover.find_host(OTHER)):
        pytest.skip(f"needs nvcc and {OTHER}-g++: apt-get install g++-{OTHER}")
    if "MUCC_CROSS_CUDART" not in os.environ:  # no function of it is called below
        monkeypatch.setenv("MUCC_CROSS_CUDART", str(archive(tmp_path / "cudart")))
    library = tmp_path / "libadd.so"
    library.write_bytes(build(request(cached=False)).data)
    with pytest.raises(MuccRuntimeError, match=f"MU6032.*is for {OTHER.partition('-')[0]}"):
        read_manifest(library)
    (emulator, root) = (f"qemu-{OTHER.partition('-')[0]}", f"/usr/{OTHER}")
    if shutil.which(emulator) is None:
        pytest.skip(f"needs {emulator}: apt-get install qemu-user")
    (tmp_path / "add.mcu").write_text(PROGRAM)
    (tmp_path / "main.cpp").write_text(CALLER)
    assert main(["build", str(tmp_path / "add.mcu"), "-o", str(tmp_path / "add.h")]) == 0
    program = tmp_path / "main"
    compiler = (f"{OTHER}-g++", "-std=c++17", f"-I{tmp_path}", str(tmp_path / "main.cpp"), str(library))
    linking = (f"-Wl,-rpath,{tmp_path}", "-Wl,--unresolved-symbols=ignore-in-shared-libs")
    subprocess.run((*compiler, *linking, "-o", str(program)), check=True)
    done = subprocess.run((emulator, "-L", root, str(program)), capture_output=True, text=True, check=True)
    assert "MU6005: argument 'x' of add: expected a tensor on a CUDA device" in done.stdout
