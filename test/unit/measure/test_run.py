"""`mucc run`: dims, inputs, verdicts, report. The compiler is a stub that computes x @ w.T * alpha."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hostlib import MANIFEST, host_library
from hypothesis import given
from hypothesis import strategies as st

import mucc.build.artefact
from mucc.build.toolchain import doctor
from mucc.cli.reporting import Reporter
from mucc.cli.run import main
from mucc.diagnostics.core import Diagnostic, DiagnosticError, DiagnosticSink
from mucc.dialects.mu.arrays import NumpyArrays
from mucc.dialects.mu.bounded import BoundedArrays
from mucc.dialects.mu.bounded_values import Bounded
from mucc.library.dims import holds, parse_dims
from mucc.library.signature import Manifest
from mucc.measure import run
from mucc.measure.dims import check_promises, choose_kernel, complete_dims
from mucc.measure.verify import compare, input_scales, tolerance

INFO = Manifest.parse(MANIFEST).kernels[0]


def code_of(function: Any, *args: Any) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        function(*args)
    return caught.value.diagnostics[0]


# ---- dims ------------------------------------------------------------------------------------------------


def test_dims_are_read() -> None:
    assert parse_dims(["M=4096, N=64", "K=4_096"]) == {"M": 4096, "N": 64, "K": 4096}
    assert parse_dims([]) == {}


@pytest.mark.parametrize(
    "text", ["M", "M=", "M=x", "M=0", "M=-1", "M=2147483648", "=3", "M=3,M=4", "3=M", "M=3=4"]
)
def test_bad_dims(text: str) -> None:
    assert code_of(parse_dims, [text]).code == "MU6050"


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Za-z0-9_]{0,3}", fullmatch=True), st.integers(1, 2**31 - 1)))
def test_dims_round_trip(dims: dict[str, int]) -> None:
    assert parse_dims([",".join(f"{k}={v}" for k, v in dims.items())]) == dims


def test_dims_against_the_signature() -> None:
    assert complete_dims(INFO, {"K": 8, "M": 1, "N": 2}) == {"M": 1, "N": 2, "K": 8}
    laid = Manifest.parse(MANIFEST).kernels[1]
    assert complete_dims(laid, {"B": 2}) == {"B": 2, "K": 64}
    assert complete_dims(laid, {"B": 2, "K": 64}) == {"B": 2, "K": 64}
    missing = code_of(complete_dims, INFO, {"M": 5})
    assert (missing.code, missing.message.split(" of ")[0]) == ("MU6051", "--dims lacks N, K")
    assert missing.helps == ("add --dims M=5,N=4096,K=4096",)
    unknown = code_of(complete_dims, INFO, {"m": 5})
    assert (unknown.code, unknown.helps) == ("MU6051", ("did you mean 'M'?",))
    assert code_of(complete_dims, laid, {"B": 2, "K": 32}).code == "MU6052"


def test_promises() -> None:
    check_promises(INFO, {"M": 1, "N": 1, "K": 16})
    broken = code_of(check_promises, INFO, {"M": 1, "N": 1, "K": 12})
    assert broken.code == "MU6052"
    assert broken.message == "linear takes no K = 12: K % 8 == 0 must hold"
    assert broken.notes == ("TMA needs 16-byte rows of x",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("M == 7", True),
        ("M + N * 2 <= 13", True),
        ("(M + N) * 2 < 20", False),
        ("M / 2 == 3", True),
        ("(N - M) / 2 > 0 - 3", True),
        ("(N - M) % 3 == 0 - 1", True),
        ("M >= 8", False),
        ("M % 0 == 0", True),
        ("not an expression", True),
        ("M.real > 100", True),
    ],
)
def test_what_holds(text: str, expected: bool) -> None:
    assert holds(text, {"M": 7, "N": 3}) is expected


def test_which_kernel() -> None:
    manifest = Manifest.parse(MANIFEST)
    assert choose_kernel(manifest, "laid").name == "laid"
    assert code_of(choose_kernel, manifest, None).message == "the file holds 2 kernels: linear, laid"
    assert code_of(choose_kernel, manifest, "liner").helps == ("did you mean 'linear'?",)


# ---- inputs and verdicts -----------------------------------------------------------------------------------


def test_weights_are_shrunk_so_that_outputs_are_about_one() -> None:
    dims = {"M": 64, "N": 48, "K": 256}
    scales = input_scales(INFO, dims)
    assert scales["x"] == 1.0
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 256)) * scales["x"]
    w = random.standard_normal((48, 256)) * scales["w"]
    assert 0.3 < np.std(x @ w.T) < 3


def test_verdicts() -> None:
    random = np.random.default_rng(1)
    ref = random.standard_normal((64, 64))
    rounded = NumpyArrays().round_to(ref, "bf16")
    assert compare("y", "bf16", rounded, ref, np).good
    assert compare("y", "bf16", rounded * 1.005, ref, np).good
    assert not compare("y", "f16", rounded * 1.005, ref, np).good
    spoilt = rounded.copy()
    spoilt[5, 7] += 0.1
    one = compare("y", "bf16", spoilt, ref, np)
    assert one.relative < tolerance("bf16"), "a norm over thousands hides one wrong element"
    assert not one.good
    nan = rounded.copy()
    nan[0, 0] = np.nan
    assert (compare("y", "bf16", nan, ref, np).wrong, compare("y", "bf16", nan, ref, np).good) == (1, False)
    both = ref.copy()
    both[0, 0] = np.nan
    both[1, 1] = np.inf
    same = nan.copy()
    same[1, 1] = np.inf
    assert compare("y", "bf16", same, both, np).good
    same[1, 1] = -np.inf
    assert compare("y", "bf16", same, both, np).wrong == 1


def test_a_zero_reference_wants_zeros() -> None:
    zero = np.zeros((4, 4))
    assert compare("y", "f32", zero, zero, np).good
    assert not compare("y", "f32", zero + 1e-9, zero, np).good
    assert compare("y", "f32", zero - 1e-22, zero, np).good
    assert compare("y", "f32", zero[:0], zero[:0], np).good


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="shape"):
        compare("y", "f32", np.zeros((2, 2)), np.zeros((2, 1)), np)


@given(st.sampled_from(["bf16", "f16", "f32"]), st.integers(0, 2**32 - 1))
def test_two_roundings_are_always_good(dtype: str, seed: int) -> None:
    arrays = NumpyArrays()
    ref = np.random.default_rng(seed).standard_normal((16, 16))
    assert compare(
        "y", dtype, arrays.round_to(arrays.round_to(ref, "f32") * (1 + 2**-12), dtype), ref, np
    ).good


# ---- the command -----------------------------------------------------------------------------------------


class StubCompilation:
    """Compiles nothing: interprets the first kernel of the manifest, with an error that a test chooses."""

    error = 0.0

    def __init__(self) -> None:
        self.sink = DiagnosticSink()

    def emit(self, kind: str) -> str:
        assert kind == "manifest"
        return json.dumps({**MANIFEST, "kernels": MANIFEST["kernels"][:1]})

    def interpret(self, kernel: str, inputs: Sequence[Any], *, exact: bool = False) -> list[Any]:
        x, w, alpha = inputs
        assert (kernel, x.dtype) == ("linear", np.float64)
        return [x @ w.T * alpha]

    def interpret_stages(self, kernel: str, inputs: Sequence[Any], *, bounded: bool = False) -> list[Any]:
        values = self.interpret(kernel, inputs)
        return (
            [Bounded(BoundedArrays(NumpyArrays()), v, abs(v) * 1e-3) for v in values] if bounded else values
        )

    def interpret_lowered(self, kernel: str, inputs: Sequence[Any]) -> list[Any]:
        return [self.interpret(kernel, inputs)[0] * (1 + self.error)]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    """`mucc run` of a file, without a compiler and without a GPU."""
    path = tmp_path / "k.mcu"
    path.write_text("kernel linear")

    def build(request: Any, progress: Any) -> Any:
        return mucc.build.artefact.Artefact(host_library().read_bytes(), (), cached=True)

    monkeypatch.setattr(mucc.build.artefact, "compile_source", lambda source, target: StubCompilation())
    monkeypatch.setattr(mucc.build.artefact, "build", build)
    monkeypatch.setattr(run, "gpu_problem", lambda target: "there is no usable NVIDIA GPU")
    return lambda *argv: main.work(main.parse([str(path), *argv]), Reporter())


def test_without_a_gpu_it_checks_the_lowered_program_and_says_so(command: Any, capsys: Any) -> None:
    assert command("--dims", "M=5,N=16,K=24", "--seed", "7") == 0
    text = capsys.readouterr().out
    for part in (
        "linear[M, N, K](x: bf16[M, K], w: bf16[N, K], alpha: f32) -> f32[M, N]",
        "M=5, N=16, K=24",
        "the lowered program, interpreted on the CPU",
        "y: f32[5, 16]",
        "good: error 0.00e+00, worst",
        "note: nothing ran on a GPU: there is no usable NVIDIA GPU",
        "and loads; it holds linear, laid",
    ):
        assert part in text
    assert "seed" in text and " 7\n" in text


def test_interpreting_needs_no_compiler(command: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(request: Any, progress: Any) -> Any:
        raise AssertionError("a library was built")

    monkeypatch.setattr(mucc.build.artefact, "build", build)
    assert command("--dims", "M=5,N=16,K=24", "--device", "cpu") == 0
    text = capsys.readouterr().out
    assert "good: error" in text
    assert "note: nothing ran on a GPU: --device cpu was given" in text


def test_json(command: Any, capsys: Any) -> None:
    assert command("--dims", "M=5", "--dims", "N=16,K=24", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["kernel"], report["good"], report["time_us"]) == ("linear", True, None)
    assert report["dims"] == {"M": 5, "N": 16, "K": 24}
    assert report["outputs"][0]["relative_error"] == 0
    assert isinstance(report["seed"], int)


def test_seeds_are_fresh_unless_given(command: Any, capsys: Any) -> None:
    seeds: list[int] = []
    for _ in range(2):
        command("--dims", "M=5,N=16,K=24", "--json")
        seeds.append(json.loads(capsys.readouterr().out)["seed"])
    assert seeds[0] != seeds[1]


def test_a_wrong_result_fails(command: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubCompilation, "error", 0.01)
    diagnostic = code_of(command, "--dims", "M=5,N=16,K=24", "--seed", "3")
    assert (diagnostic.code, diagnostic.helps) == ("MU6060", ("the same inputs again: --seed 3",))
    assert diagnostic.message == "linear: y differs from the float64 interpreter"
    text = capsys.readouterr().out
    assert "WRONG: error 1.00e-02" in text and "80 of 80 elements beyond what roundings explain: [" in text


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ((), "MU6051"),
        (("--dims", "M=5,N=16,K=12"), "MU6052"),
        (("--dims", "M=5,N=16,K=24", "--kernel", "other"), "MU5406"),
        (("--dims", "M=5,N=16,K=24", "--device", "cuda"), "MU6070"),
        (("--dims", "M=5,N=16,K=24", "--device", "tpu"), "MU5001"),
        (("--dims", "M=5,N=16,K=24", "--iters", "0"), "MU5001"),
        (("--dimz", "M=5"), "MU5001"),
    ],
)
def test_wrong_usage(command: Any, argv: tuple[str, ...], code: str) -> None:
    assert code_of(command, *argv).code == code


def test_a_missing_toolchain_is_a_note(command: Any, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(request: Any, progress: Any) -> Any:
        raise DiagnosticError(Diagnostic("MU5101", "no nvcc was found"))

    monkeypatch.setattr(mucc.build.artefact, "build", missing)
    assert command("--dims", "M=5,N=16,K=24") == 0
    assert "note: the .so was not built: no nvcc was found" in capsys.readouterr().out


def test_a_library_that_does_not_load_is_reported(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(request: Any, progress: Any) -> Any:
        return mucc.build.artefact.Artefact(b"not a library", (), cached=True)

    monkeypatch.setattr(mucc.build.artefact, "build", broken)
    assert code_of(command, "--dims", "M=5,N=16,K=24").code == "MU6031"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (False, "torch is not installed, and there is no GPU: no NVIDIA driver"),
        (True, "torch is not installed"),
    ],
)
def test_without_torch_a_missing_gpu_is_said_too(found: bool, said: str, monkeypatch: pytest.MonkeyPatch):
    """Nobody installs PyTorch to learn that there is no GPU."""
    gpu = doctor.Finding("GPU", found, "no NVIDIA driver", "run", "")
    monkeypatch.setattr(doctor, "gpu", lambda: gpu)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run.no_gpu() == said
