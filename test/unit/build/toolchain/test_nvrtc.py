"""Compiling bodies with NVRTC, doing without it, and the header of functions that it is given."""

from __future__ import annotations

import ctypes as ct
import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mucc.build.toolchain import nvrtc
from mucc.build.toolchain.discover import find_nvcc, nvcc_version
from mucc.build.toolchain.splice import read_bodies
from mucc.diagnostics.core import DiagnosticError, Severity
from mucc.files.package import INCLUDES

BODY = """\
#include <mucc/math.cuh>
struct Body0 { static MUCC_DEVICE float apply(float a, float b) { return EXPRESSION; } };
extern "C" __global__ void mucc_body_0() {
  float a, b;
  asm volatile("// mucc.in %0, %1" : "=f"(a), "=f"(b));
  float y = Body0::apply(a, b);
  asm volatile("// mucc.out %0" :: "f"(y));
}
"""

EVERYTHING = """\
mucc::min(a, b) + mucc::max(a, b) + mucc::div(a, b) + mucc::sqrt(a) + mucc::rsqrt(a) + mucc::round_bf16(a)
  + mucc::round_f16(b) + mucc::from_bool(a < b) + mucc::powi<3>(a) + mucc::powi<-2>(b) + mucc::pow(a, b)
  + mucc::exp(a) + mucc::expm1(a) + mucc::log(a) + mucc::log1p(a) + mucc::tanh(a) + mucc::erf(a)
  + mucc::sigmoid(a) + mucc::gelu_erf(a) + mucc::gelu_tanh(a) + mucc::softplus(a) + mucc::softplus(a, 2.5f)
  + sinf(a) + cosf(a) + tanf(a) + atan2f(a, b) + floorf(a) + ceilf(a) + rintf(a) + truncf(a) + fmodf(a, b)
  + mucc::sign(a) + mucc::remainder(a, b) + mucc::floor_divide(a, b)
  + float(mucc::remainder(int(a), int(b)) + mucc::floor_divide(int(a), int(b)) + mucc::fmod(int(a), int(b)))
  + float(mucc::left_shift(int(a), int(b)) + mucc::right_shift(int(a), int(b)))
  + mucc::tanh_softplus(a) + (a < INFINITY ? mucc::Max::first(a) : NAN) + mucc::Min::identity"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No flags for nvcc, and nothing remembered of NVRTC before and after."""
    for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    nvrtc._load.cache_clear()
    yield
    nvrtc._load.cache_clear()


@pytest.fixture
def real() -> None:
    if nvrtc.version() is None:
        pytest.skip("needs NVRTC: pip install 'mucc[nvcc]'")


def compile_body(expression: str) -> nvrtc.Compiled:
    source = BODY.replace("EXPRESSION", expression)
    return nvrtc.compile_ptx(source, target="sm_90a", include=INCLUDES)


def diagnostic(error: pytest.ExceptionInfo[DiagnosticError]) -> tuple[str, str]:
    (found,) = error.value.diagnostics
    return found.code, "\n".join((found.message, *found.notes))


# ---- the real one ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("real")
def test_a_body_becomes_ptx():
    compiled = compile_body("mucc::gelu_erf(a) * b")
    assert ".target sm_90a" in compiled.ptx and compiled.ptx.isascii() and compiled.log == ""
    body = read_bodies(compiled.ptx)[0]
    assert len(body.inputs) == 2 and body.outputs == ("f32",) and "ex2.approx" in body.template


@pytest.mark.usefixtures("real")
def test_the_header_needs_nothing_of_cuda():
    template = read_bodies(compile_body(EVERYTHING).ptx)[0].template
    for instruction in ("min.NaN.f32", "cvt.rn.bf16x2.f32", "cvt.rn.f16.f32", "div.full.f32"):
        assert instruction in template
    assert "0f7F800000" in template and "0f7FC00000" in template


@pytest.mark.nvcc
@pytest.mark.usefixtures("real")
def test_the_ptx_is_that_of_nvcc(tmp_path: Path):
    nvcc = find_nvcc()
    if not nvcc or nvrtc.why_unusable(nvcc_version(nvcc.path)):
        pytest.skip("needs nvcc and NVRTC of one release")
    (tmp_path / "b.cu").write_text(BODY.replace("EXPRESSION", EVERYTHING))
    command = [nvcc.path, "-std=c++17", "-O3", "-DNDEBUG", "-gencode=arch=compute_90a,code=compute_90a"]
    subprocess.run([*command, *(f"-I{path}" for path in INCLUDES), "-ptx", "b.cu"], check=True, cwd=tmp_path)
    assert read_bodies((tmp_path / "b.ptx").read_text()) == read_bodies(compile_body(EVERYTHING).ptx)


@pytest.mark.usefixtures("real")
def test_a_source_that_is_rejected():
    with pytest.raises(DiagnosticError) as error:
        compile_body("missing_function(a)")
    code, text = diagnostic(error)
    assert code == "MU5110" and text.startswith("NVRTC rejected") and "missing_function" in text


@pytest.mark.usefixtures("real")
def test_a_target_that_nvrtc_does_not_know():
    with pytest.raises(DiagnosticError) as error:
        nvrtc.compile_ptx("", target="sm_12")
    code, text = diagnostic(error)
    assert code == "MU5104" and "gpu-architecture" in text


@pytest.mark.usefixtures("real")
def test_threads_may_compile_at_once():
    expressions = ["a + b", "mucc::tanh(a)", "mucc::pow(a, b)", "mucc::erf(b)"]
    alone = [compile_body(e).ptx for e in expressions]
    with ThreadPoolExecutor(4) as pool:
        assert [c.ptx for c in pool.map(compile_body, expressions)] == alone


@pytest.mark.usefixtures("real")
def test_threads_compile_the_kernels_of_a_source():
    kernel = 'extern "C" __global__ void k{0}(float* x) {{ x[{0}] = __expf(x[{0}]); }}\n'
    source = "".join(map(kernel.format, range(3)))
    one = nvrtc.compile_ptx(source, target="sm_90a").ptx
    many = nvrtc.compile_ptx(source, target="sm_90a", has_kernels=True).ptx
    assert [many.count(f".entry k{i}(") for i in range(3)] == [1, 1, 1]
    assert many.count("ex2.approx") == one.count("ex2.approx") == 3


def test_only_sources_with_kernels_are_compiled_by_several_threads(monkeypatch: pytest.MonkeyPatch):
    given: list[list[bytes]] = []
    found = binding()
    succeed = found.nvrtcCompileProgram
    found.nvrtcCompileProgram = lambda program, count, options: (given.append(options), succeed())[1]
    pretend(monkeypatch, found)
    for has_kernels in (False, True):
        nvrtc.compile_ptx("", target="sm_90a", has_kernels=has_kernels)
    alone, split = (any(b"--split-compile" in option for option in options) for options in given)
    assert not alone and split


# ---- one that is missing or fails ------------------------------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, binding: object) -> None:
    """Let cuda-python's binding be `binding`, or its import fail with it."""

    def load(name: str) -> object:
        if isinstance(binding, Exception):
            raise binding
        return binding

    monkeypatch.setattr(nvrtc, "importlib", SimpleNamespace(import_module=load))


def binding(
    release: tuple[int, int] = (13, 0), result: str = "NVRTC_SUCCESS", log: bytes = b""
) -> SimpleNamespace:
    """A binding whose compiler ends with `result` and prints a log."""
    good = SimpleNamespace(name="NVRTC_SUCCESS")

    def read(_program: object, buffer: bytearray) -> None:
        buffer[:] = b"\0"

    def read_log(_program: object, buffer: bytearray) -> None:
        buffer[:] = log + b"\0"

    return SimpleNamespace(
        nvrtcVersion=lambda: (0, *release),
        nvrtcCreateProgram=lambda *_: (good, object()),
        nvrtcCompileProgram=lambda *_: (SimpleNamespace(name=result),),
        nvrtcGetProgramLogSize=lambda _: (good, len(log) + 1),
        nvrtcGetProgramLog=read_log,
        nvrtcGetPTXSize=lambda _: (good, 1),
        nvrtcGetPTX=read,
        nvrtcDestroyProgram=lambda _: (good,),
    )


def test_a_release_that_fits_nvcc(monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, binding(release=(13, 0)))
    assert nvrtc.version() == (13, 0)
    assert nvrtc.why_unusable("13.0.88") is None
    for other in ("13.1.20", "12.0.1", "unknown"):
        assert nvrtc.why_unusable(other) == f"NVRTC is of release 13.0, but nvcc is version {other}"


@pytest.mark.parametrize("name", ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"])
def test_flags_that_only_nvcc_understands(name: str, monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, binding())
    monkeypatch.setenv(name, "--use_fast_math")
    assert name in (nvrtc.why_unusable("13.0.88") or "")


def missing_library() -> SimpleNamespace:
    def fail() -> None:
        raise RuntimeError('Failure finding "libnvrtc.so": no such file\nlooked in many places')

    return SimpleNamespace(nvrtcVersion=fail)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (ModuleNotFoundError("No module named 'cuda'"), "cuda-bindings is not installed"),
        (ImportError("undefined symbol: x"), "cuda-bindings cannot be imported: undefined symbol: x"),
        (missing_library(), 'libnvrtc cannot be loaded: Failure finding "libnvrtc.so": no such file'),
    ],
)
def test_without_nvrtc(found: object, reason: str, monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, found)
    nvrtc.warm_up()
    assert nvrtc.version() is None
    why = nvrtc.why_unusable("13.0.88")
    assert why is not None and why.endswith(reason)
    with pytest.raises(DiagnosticError) as error:
        nvrtc.compile_ptx("", target="sm_90a")
    assert diagnostic(error)[0] == "MU5207" and reason in diagnostic(error)[1]
    note = nvrtc.fallback(why)
    assert (note.code, note.severity, note.notes) == ("MU5207", Severity.NOTE, (why,))


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        ("NVRTC_ERROR_OUT_OF_MEMORY", "MU5106", "NVRTC ran out of memory"),
        ("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "MU5104", "builtin operation failure"),
        ("NVRTC_ERROR_INTERNAL_ERROR", "MU5111", "NVRTC failed (internal error)"),
        ("NVRTC_ERROR_COMPILATION", "MU5110", "NVRTC rejected"),
    ],
)
def test_failures_of_nvrtc(result: str, code: str, text: str, monkeypatch: pytest.MonkeyPatch):
    log = b"k.cu(1): error: x is undefined" if result == "NVRTC_ERROR_COMPILATION" else b""
    pretend(monkeypatch, binding(result=result, log=log))
    with pytest.raises(DiagnosticError) as error:
        nvrtc.compile_ptx("", target="sm_90a")
    assert diagnostic(error)[0] == code and text in diagnostic(error)[1]


def test_cuda_python_is_imported_late():
    program = (
        "import mucc.build.toolchain.nvrtc, sys; sys.exit('cuda' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ---- the header on the host ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    """The header's rounding as g++ compiles it, which is to be what the device does."""
    if not (gxx := shutil.which("g++")):
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("math")
    loops = "".join(
        f'extern "C" void {name}(int n, float const* x, float* y)'
        f" {{ for (int i = 0; i < n; ++i) y[i] = mucc::{name}(x[i]); }}\n"
        for name in ("round_bf16", "round_f16")
    )
    (folder / "r.cpp").write_text(f"#include <mucc/math.cuh>\n{loops}")
    command = [gxx, "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(
        [*command, *(f"-I{path}" for path in INCLUDES), "r.cpp", "-o", "r.so"], check=True, cwd=folder
    )
    return ct.CDLL(str(folder / "r.so"))


def samples() -> np.ndarray:
    """Every exponent and sign with random mantissas, ties and their neighbours."""
    bits = np.random.default_rng(1).integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = [(bits >> np.uint32(n) << np.uint32(n)) | np.uint32(1 << (n - 1)) for n in (13, 14, 16, 23)]
    edges = np.array([0.0, np.inf, 65504, 65519.996, 65520, 65536, 2**-14, 2**-24, 2**-25, 3e38], np.float32)
    near = [edges, np.nextafter(edges, np.float32(0)), -edges]
    return np.concatenate([bits.view(np.float32), *(t.view(np.float32) for t in ties), *near])


def apply(host: ct.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    getattr(host, name)(len(x), *(a.ctypes.data_as(ct.c_void_p) for a in (x, y)))
    return y


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit for bit, but for which NaN it is."""
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


def test_rounding_to_f16_on_the_host(host: ct.CDLL):
    x = samples()
    with np.errstate(over="ignore"):
        assert same(apply(host, "round_f16", x), x.astype(np.float16).astype(np.float32))


def test_rounding_to_bf16_on_the_host(host: ct.CDLL):
    x = samples()
    finite = x[np.isfinite(x)]
    below = finite.view(np.uint32) >> np.uint32(16)  # towards zero
    candidates = [(b << np.uint32(16)).view(np.float32) for b in (below, below + np.uint32(1))]
    sizes = [np.abs(c).astype(np.float64) for c in candidates]
    sizes[1][np.isinf(sizes[1])] = 2.0**128
    middle = (sizes[0] + sizes[1]) / 2
    size = np.abs(finite).astype(np.float64)
    up = (size > middle) | ((size == middle) & (below % 2 == 1))
    assert same(apply(host, "round_bf16", finite), np.where(up, candidates[1], candidates[0]))
    others = x[~np.isfinite(x)]
    assert same(apply(host, "round_bf16", others), others)


def test_the_binding_is_loaded_once(monkeypatch: pytest.MonkeyPatch):
    pretend(monkeypatch, binding())
    nvrtc.warm_up()
    monkeypatch.setattr(nvrtc, "importlib", importlib)
    assert nvrtc.version() == (13, 0)
    assert isinstance(nvrtc._load(), SimpleNamespace)
