"""Whether the parts of a CUDA compiler are of one release: packages and headers here are empty files."""

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from processes import HANG

from mucc.build.artefact import Request, build
from mucc.build.toolchain import doctor, nvcc
from mucc.build.toolchain.assembly import LIBRARIES
from mucc.build.toolchain.discover import Tool, Toolchain, find_cutlass, find_host, find_nvcc, find_toolchain
from mucc.build.toolchain.release import inconsistency, releases
from mucc.diagnostics import DiagnosticError

ROOT = Path(__file__).parents[4]
PROGRAM = b"kernel k[M, N](x: f32[M, N]) -> f32[M, N] {\n    return relu(x)\n}\n"
PACKAGES = {
    "nvidia_cuda_nvcc": "88",
    "nvidia_cuda_crt": "88",
    "nvidia_nvvm": "88",
    "nvidia_cuda_runtime": "96",
}


def toolkit(root: Path, nvcc: str = "13.0", cudart: str = "13.0") -> Tool:
    """What a toolkit's directory shows of its releases."""
    path = root / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {nvcc}, V{nvcc}.88'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (root / "include").mkdir()
    major, minor = cudart.split(".")
    header = f"#define CUDART_VERSION  {int(major) * 1000 + int(minor) * 10}\n"
    (root / "include" / "cuda_runtime_api.h").write_text(header)
    return Tool(str(path), "test")


def packages(folder: Path, **changed: str) -> Tool:
    """Pip packages of release 13.0, but for those that are `changed`."""
    release = {name: changed.get(name, "13.0") for name in PACKAGES}
    for name, patch in PACKAGES.items():
        (folder / f"{name}-{release[name]}.{patch}.dist-info").mkdir(parents=True)
    (folder / "nvidia_cuda_cccl-13.5.1.dist-info").mkdir()
    root = folder / "nvidia" / "cu13"
    return toolkit(root, release["nvidia_cuda_nvcc"], release["nvidia_cuda_runtime"])


def test_packages_of_one_release_go_together(tmp_path: Path):
    tool = packages(tmp_path)
    assert releases(tool) == dict.fromkeys(("nvcc", "crt", "nvvm", "cudart"), "13.0")
    assert inconsistency(tool) is None


@pytest.mark.parametrize("name", PACKAGES)
def test_each_part_counts(tmp_path: Path, name: str):
    found = inconsistency(packages(tmp_path, **{name: "13.2"}))
    assert found is not None and found.code == "MU5112" and "13.2" in found.message
    wanted = "13.2" if name == "nvidia_cuda_runtime" else "13.0"
    assert found.helps == (f"pip install 'cuda-toolkit[cccl,crt,cudart,nvcc,nvrtc,nvvm]=={wanted}.*'",)


def test_a_toolkit_whose_headers_are_of_another_release(tmp_path: Path):
    assert inconsistency(toolkit(tmp_path / "good", "12.9", "12.9")) is None
    found = inconsistency(toolkit(tmp_path / "mixed", "13.0", "13.2"))
    assert found is not None and "nvcc 13.0, cudart 13.2" in found.message and "pip" not in found.helps[0]


def test_what_says_nothing_is_not_judged(tmp_path: Path):
    tool = packages(tmp_path)
    (tmp_path / "nvidia_nvvm-13.2.86.dist-info").mkdir()
    assert "nvvm" not in releases(tool) and inconsistency(tool) is None
    assert releases(Tool(sys.executable, "test")) == {}


def test_a_build_says_so_before_any_compiler_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = packages(tmp_path, nvidia_cuda_runtime="13.2")
    monkeypatch.setattr("mucc.build.artefact.find_toolchain", lambda *_: Toolchain(tool, tool, tool))
    monkeypatch.setattr(nvcc, "build", lambda *_, **__: pytest.fail("a compiler ran"))
    with pytest.raises(DiagnosticError, match="parts of the CUDA compiler are of different releases"):
        build(Request(PROGRAM, "k.mcu", plain=True, cached=False))
    (finding,) = (f for f in doctor.examine(tool.path) if f.name == "CUDA release")
    assert not finding.found and finding.mend.startswith("pip install 'cuda-toolkit[")


def test_a_library_needs_the_glibc_that_the_page_names(tmp_path: Path):
    """What the CUDA run time, which every library holds, binds to when it is linked here."""
    if not (find_nvcc() and find_cutlass() and find_host() and shutil.which("objdump")):
        pytest.skip("needs nvcc's packages, g++ and objdump")
    tools = find_toolchain().tools()
    source = tmp_path / "k.cpp"
    source.write_text('extern "C" int cudaDeviceSynchronize(); int (*use)() = cudaDeviceSynchronize;')
    command = [tools["cxx"], "-shared", "-fPIC", str(source), f"-L{tools['cudart']}", *LIBRARIES]
    subprocess.run([*command, "-o", str(tmp_path / "k.so")], check=True, timeout=HANG)
    symbols = subprocess.check_output(["objdump", "-T", str(tmp_path / "k.so")], text=True)
    needed = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", symbols))
    said = re.search(r"\*\*glibc ([\d.]+) or newer\*\*", (ROOT / "docs/runtime.md").read_text())
    assert said and needed <= tuple(map(int, said[1].split(".")))


def test_packages_are_found_wherever_python_finds_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """`pip install --target` fills a folder of any name, which PYTHONPATH then names."""
    for variable in ("MUCC_NVCC", "MUCC_CUTLASS"):
        monkeypatch.delenv(variable, raising=False)
    packages(tmp_path / "vendored")
    headers = tmp_path / "vendored" / "cutlass_library" / "source" / "include"
    (headers / "cutlass").mkdir(parents=True)
    (headers / "cutlass" / "version.h").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "vendored")])
    assert find_cutlass() == Tool(str(headers), "pip")
    assert find_nvcc() == Tool(str(tmp_path / "vendored/nvidia/cu13/bin/nvcc"), "pip")
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.chdir(tmp_path / "vendored")
    assert find_cutlass() == Tool(str(headers), "pip"), "an absolute path, also for the working directory"
