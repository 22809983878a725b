"""Finding compilers and headers, running nvcc, and reading what it says. Most compilers here are scripts."""

import ctypes
import os
import signal
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from processes import HANG, gone, wait_for

from mucc.build import jobs, messages
from mucc.build.toolchain import discover, doctor, nvcc
from mucc.build.toolchain.discover import Tool, Toolchain, find_cutlass, find_host, find_nvcc, find_toolchain
from mucc.build.toolchain.flags import flags
from mucc.diagnostics import DiagnosticError

VARIABLES = ("MUCC_NVCC", "MUCC_CUTLASS", "MUCC_CXX", "NVCC_CCBIN", "CUDA_HOME", "CUDA_PATH")

TINY = """
#include <mucc_tiny.h>
__global__ void scale(float *p, float a) { p[threadIdx.x] *= a; }
extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on it, in whose root the test may put things."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    monkeypatch.setattr(discover, "_system_toolkit", lambda: None)
    return tmp_path


def script(path: Path, body: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(body)}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def cutlass(path: Path, minor: int = 2) -> Path:
    (path / "cutlass").mkdir(parents=True)
    text = f"#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR {minor}\n#define CUTLASS_PATCH 0\n"
    (path / "cutlass" / "version.h").write_text(text)
    return path


def codes(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [d.code for d in error.value.diagnostics]


def test_all_that_is_missing_is_named_at_once(nowhere: Path):
    with pytest.raises(DiagnosticError) as error:
        find_toolchain()
    assert codes(error) == ["MU5101", "MU5102", "MU5103"]
    assert [d.helps[0] for d in error.value.diagnostics] == [
        "pip install 'mucc[nvcc]'",
        "pip install 'mucc[nvcc]'",
        "apt-get install g++",
    ]


def test_the_order_of_nvccs(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(discover, "_system_toolkit", lambda: Tool("/usr/local/cuda/bin/nvcc", "CUDA toolkit"))
    found = [find_nvcc()]
    script(nowhere / "bin" / "nvcc")
    found.append(find_nvcc())
    script(nowhere / "home" / "bin" / "nvcc")
    monkeypatch.setenv("CUDA_HOME", str(nowhere / "home"))
    found.append(find_nvcc())
    script(nowhere / "site-packages" / "nvidia" / "cu13" / "bin" / "nvcc")
    found.append(find_nvcc())
    monkeypatch.setenv("MUCC_NVCC", str(script(nowhere / "mine" / "nvcc")))
    found.append(find_nvcc())
    found.append(find_nvcc(str(nowhere / "home")))
    assert [f and f.origin for f in found] == [
        "CUDA toolkit",
        "PATH",
        "CUDA_HOME",
        "pip",
        "MUCC_NVCC",
        "--nvcc",
    ]
    assert found[-1] == Tool(str(nowhere / "home" / "bin" / "nvcc"), "--nvcc")


def test_the_newest_pip_toolchain_wins(nowhere: Path):
    for name in ("cu12", "cu13"):
        script(nowhere / "site-packages" / "nvidia" / name / "bin" / "nvcc")
    found = find_nvcc()
    assert found is not None and "cu13" in found.path


def test_a_setting_that_leads_nowhere_is_an_error(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    script(nowhere / "bin" / "nvcc")
    with pytest.raises(DiagnosticError) as error:
        find_nvcc("/nope/nvcc")
    assert codes(error) == ["MU5105"]
    for variable, find in (("MUCC_NVCC", find_nvcc), ("MUCC_CUTLASS", find_cutlass), ("MUCC_CXX", find_host)):
        monkeypatch.setenv(variable, "/nope/x")
        with pytest.raises(DiagnosticError, match=f"{variable} says '/nope/x'") as error:
            find()
        assert codes(error) == ["MU5105"]


def test_cutlass_headers(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    pip = cutlass(nowhere / "site-packages" / "cutlass_library" / "source" / "include")
    assert find_cutlass() == Tool(str(pip), "pip")
    assert discover.cutlass_version(str(pip)) == "4.2.0"
    mine = cutlass(nowhere / "checkout" / "include", minor=3)
    monkeypatch.setenv("MUCC_CUTLASS", str(nowhere / "checkout"))
    assert find_cutlass() == Tool(str(mine), "MUCC_CUTLASS")
    assert discover.cutlass_version(str(nowhere)) == "unknown"


def test_host_compilers(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    script(nowhere / "bin" / "c++")
    assert find_host() == Tool(str(nowhere / "bin" / "c++"), "PATH")
    script(nowhere / "bin" / "g++")
    assert find_host() == Tool(str(nowhere / "bin" / "g++"), "PATH")
    script(nowhere / "bin" / "g++-13", "echo 13.2.0")
    monkeypatch.setenv("MUCC_CXX", "g++-13")
    found = find_host()
    assert found == Tool(str(nowhere / "bin" / "g++-13"), "MUCC_CXX")
    assert discover.host_version(found.path) == "13.2.0"


def test_nvcc_version(nowhere: Path):
    path = script(nowhere / "a" / "nvcc", 'echo "Cuda compilation tools, release 13.0, V13.0.88"')
    assert discover.nvcc_version(str(path)) == "13.0.88"
    assert discover.nvcc_version(str(script(nowhere / "b" / "nvcc", "exit 1"))) == "unknown"
    assert discover.nvcc_version("/nope") == "unknown"


def test_the_newest_system_toolkit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "listdir", lambda path: ["bin", "cuda-12.9", "cuda-13.0", "cuda-9.2"])
    monkeypatch.setattr(discover, "_executable", lambda path: True)
    assert discover._system_toolkit() == Tool("/usr/local/cuda-13.0/bin/nvcc", "CUDA toolkit")


@pytest.fixture
def fake(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """A toolchain whose nvcc is a script that the test writes."""
    monkeypatch.setenv("PATH", f"{nowhere / 'bin'}:/usr/bin:/bin")
    script(nowhere / "cuda" / "bin" / "nvcc")
    (nowhere / "cuda" / "lib").mkdir()
    (nowhere / "cuda" / "lib" / "libcudart_static.a").touch()
    headers = cutlass(nowhere / "include")
    return Toolchain(
        Tool(str(nowhere / "cuda/bin/nvcc"), "t"), Tool(str(headers), "t"), Tool("/usr/bin/g++", "t")
    )


def nvcc_says(toolchain: Toolchain, body: str) -> None:
    script(Path(toolchain.nvcc.path), body)


WRITE = 'while [ "$1" != -o ]; do shift; done; echo built > "$2"'


def test_build(fake: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    monkeypatch.setattr(jobs.tempfile, "tempdir", None)
    nvcc_says(fake, f'echo "$@" > {tmp_path}/arguments\n{WRITE}')
    built = nvcc.build("int x;", "so", fake)
    assert built.data == b"built\n" and built.warnings == ()
    arguments = (tmp_path / "arguments").read_text().split()
    assert (
        "-DNDEBUG" in arguments
        and f"-L{tmp_path}/cuda/lib" in arguments
        and f"-I{tmp_path}/include" in arguments
    )
    assert os.listdir(tmp_path / "t") == []


def test_flags_per_kind():
    assert "-gencode=arch=compute_90a,code=sm_90a" in flags("so", "sm_90a")
    assert "-gencode=arch=compute_90a,code=compute_90a" in flags("ptx", "sm_90a")
    assert "-shared" in flags("so", "sm_90a") and "-shared" not in flags("cubin", "sm_90a")
    assert all("-DNDEBUG" in flags(kind, "sm_90a") for kind in ("so", "ptx", "cubin"))


def test_save_temps_keeps_source_and_log(fake: Toolchain, tmp_path: Path):
    nvcc_says(fake, f"echo said\n{WRITE}")
    nvcc.build("int x;", "so", fake, name="k", save_temps=str(tmp_path / "temps"))
    assert (tmp_path / "temps" / "k.cu").read_text() == "int x;"
    assert "said" in (tmp_path / "temps" / "the-whole-program.log").read_text()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "MU5106"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "MU5106"),
        ("/tmp/x.o: No space left on device", "MU5107"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_90a'", "MU5104"),
        ("error -- unsupported GNU version! gcc versions later than 15 are not supported!", "MU5104"),
        ('k.cu(1): catastrophic error: cannot open source file "cuda_fp16.h"', "MU5104"),
        ('k.cu(3): error: identifier "zz" is undefined', "MU5110"),
        ("", "MU5104"),
    ],
)
def test_failures(fake: Toolchain, said: str, code: str):
    nvcc_says(fake, f"cat <<'EOF' >&2\n{said}\nEOF\nexit 1")
    with pytest.raises(DiagnosticError) as error:
        nvcc.build("int x;", "so", fake)
    assert codes(error) == [code]


def test_a_template_trace_is_cut():
    trace = "k.cu(1): error: static assertion failed with " + "cute::tuple<" * 500 + "\n"
    trace += "".join(f"          instantiation of class {i}\n" for i in range(200)) + "k.cu(2): error: too\n"
    short = messages.failure(trace, 1)
    assert len(short.notes) == 2 and all(len(note) <= messages.MAX_WIDTH for note in short.notes)
    assert len(messages.failure(trace, 1, verbose=True).notes) == 202
    assert "the whole log: k.log" in messages.failure(trace, 1, log_path="k.log").helps


PTXAS = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1kPf' for 'sm_90a'
ptxas info    : Function properties for _Z1kPf
    568 bytes stack frame, 1088 bytes spill stores, 1112 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 568 bytes cumulative stack size
ptxas info    : Compiling entry function '_Z1lPf' for 'sm_90a'
ptxas info    : Function properties for _Z1lPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""


def test_ptxas_resources():
    assert messages.resources(PTXAS) == [
        messages.KernelResources("_Z1kPf", 32, 568, 1088, 1112),
        messages.KernelResources("_Z1lPf", 168, 0, 0, 0),
    ]


def test_what_costs_speed_is_a_warning():
    slow = (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
        "to insufficient register resources for the wgmma pipeline in function '_Z1kPf'\n"
        "ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum "
        "register requirements.\n"
    )
    found = messages.warnings(PTXAS + slow)
    assert [w.code for w in found] == ["MU5201", "MU5202", "MU5202"]
    assert "1088 bytes stored and 1112 bytes loaded" in found[0].message
    assert "(C7510): wgmma.mma_async" in found[1].message and "_Z1kPf" not in found[1].message
    assert "setmaxnreg" in found[2].message


def test_a_timeout_ends_the_whole_family(fake: Toolchain, tmp_path: Path):
    nvcc_says(fake, f"sleep 600 &\necho $! > {tmp_path}/child\nwait")
    with pytest.raises(DiagnosticError) as error:
        nvcc.build("int x;", "so", fake, timeout=0.5)
    assert codes(error) == ["MU5108"]
    child = tmp_path / "child"  # the time may be over before there is one
    assert not child.exists() or not child.read_text() or gone(int(child.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_end_the_whole_family(fake: Toolchain, tmp_path: Path, number: signal.Signals):
    nvcc_says(
        fake, f"sleep 600 &\necho $! > {tmp_path}/child.new; mv {tmp_path}/child.new {tmp_path}/child\nwait"
    )
    program = """
import signal, sys
from mucc.process import interrupts
from mucc.process.interrupts import Terminated
from mucc.build.toolchain import nvcc
from mucc.build.toolchain.discover import Tool, Toolchain
interrupts.install()
paths = sys.argv[1:4]
try:
    nvcc.build("int x;", "so", Toolchain(*(Tool(p, "t") for p in paths)))
except (KeyboardInterrupt, Terminated):
    sys.exit(9)
"""
    temporary = tmp_path / "t"
    temporary.mkdir()
    paths = [t.path for t in (fake.nvcc, fake.cutlass, fake.host)]
    process = subprocess.Popen(
        [sys.executable, "-c", program, *paths],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    wait_for((tmp_path / "child").exists)
    process.send_signal(number)
    assert process.wait(HANG) == 9
    assert gone(int((tmp_path / "child").read_text()))
    assert os.listdir(temporary) == []


def test_a_toolchain_without_cudart(fake: Toolchain, tmp_path: Path):
    (tmp_path / "cuda" / "lib" / "libcudart_static.a").unlink()
    with pytest.raises(DiagnosticError, match="needs cudart") as error:
        nvcc.build("int x;", "so", fake)
    assert codes(error) == ["MU5104"]


def test_no_place_for_temporary_files(fake: Toolchain, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs.tempfile, "tempdir", "/nope")
    with pytest.raises(DiagnosticError) as error:
        nvcc.build("int x;", "so", fake)
    assert codes(error) == ["MU5107"]


def test_the_fingerprint_changes_with_the_tools(fake: Toolchain):
    before = fake.fingerprint()
    assert fake.fingerprint() == before
    nvcc_says(fake, "echo another")
    assert fake.fingerprint() != before


def test_doctor_on_a_bare_machine(nowhere: Path):
    findings = {f.name: f for f in doctor.examine()}
    assert not findings["nvcc"].found and findings["nvcc"].mend == "pip install 'mucc[nvcc]'"
    assert not findings["host compiler"].found and findings["host compiler"].mend == "apt-get install g++"
    assert not findings["CUTLASS"].found and not findings["cudart (static)"].found
    assert findings["python"].found and all(f.mend for f in findings.values() if not f.found)


def test_doctor_names_a_broken_tool(nowhere: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUCC_NVCC", str(script(nowhere / "nvcc", "exit 1")))
    (finding,) = (f for f in doctor.examine() if f.name == "nvcc")
    assert not finding.found and "does not work" in finding.detail


def real_nvccs() -> list[Tool]:
    """The pip toolchain and the system's, as far as they are here."""
    found = [find_nvcc(), discover._system_toolkit()]
    return list(dict.fromkeys(t for t in found if t))


@pytest.mark.nvcc
@pytest.mark.skipif(not real_nvccs() or not find_cutlass(), reason="no nvcc here")
@pytest.mark.parametrize("tool", real_nvccs(), ids=lambda t: t.origin)
def test_a_real_build(tool: Tool, tmp_path: Path):
    headers = cutlass(tmp_path / "include")
    (headers / "mucc_tiny.h").write_text("#define ANSWER 42\n")
    host = find_host()
    assert host is not None
    toolchain = Toolchain(tool, Tool(str(headers), "test"), host)
    built = nvcc.build(TINY, "so", toolchain)
    (tmp_path / "tiny.so").write_bytes(built.data)
    assert ctypes.CDLL(str(tmp_path / "tiny.so")).answer() == 42
    (resources,) = messages.resources(built.log)
    assert "scale" in resources.entry and resources.registers > 0 and built.warnings == ()
    assert b".target sm_90a" in nvcc.build(TINY, "ptx", toolchain).data
    assert nvcc.build(TINY, "cubin", toolchain).data.startswith(b"\x7fELF")
    with pytest.raises(DiagnosticError) as error:
        nvcc.build(TINY + "int y = zz;\n", "so", toolchain)
    assert codes(error) == ["MU5110"] and "zz" in error.value.diagnostics[0].notes[0]
