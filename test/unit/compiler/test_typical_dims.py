"""`--dims` of a build: typical sizes that schedules are chosen for, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mucc.cli.main import main
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.compiler.typical_dims import sizes_of
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.core import Source
from mucc.runtime.build import check

TEXT = """\
kernel a[M, N, K=4096](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {
    return x @ w.T
}

kernel b[M, K](x: bf16[M, K], w: bf16[K, K]) -> bf16[M, K] where K % 64 == 0 {
    return x @ w
}
"""


def compiled(**dims: int) -> Compilation:
    return compile_text(Source("k.mcu", TEXT), Options(dims=dims))


def test_a_hint_chooses_the_schedule_that_bound_dims_would() -> None:
    bound = TEXT.replace("[M, N, K=4096]", "[M=16, N=4096, K=4096]").replace("b[M, K]", "b[M=16, K]")
    schedules = [text.emit("schedule") for text in (compiled(M=16, N=4096), compiled())]
    assert schedules[0] == compile_text(Source("k.mcu", bound)).emit("schedule") != schedules[1]


def test_hints_change_nothing_but_schedules() -> None:
    hinted = compiled(M=8192, N=8192)
    assert hinted.emit("schedule").partition("\n\n")[0] == compiled().emit("schedule").partition("\n\n")[0]
    kernels = hinted.manifest["kernels"]
    assert [k.pop("typical") for k in kernels] == [{"M": 8192, "N": 8192}, {"M": 8192}]
    plain = compiled().manifest["kernels"]
    assert [k["dims"] for k in kernels] == [k["dims"] for k in plain]
    assert [k["promises"] for k in kernels] == [k["promises"] for k in plain]


@pytest.mark.parametrize(
    ("dims", "code", "message"),
    [
        ({"m": 5}, "MU6051", "no kernel has a dim 'm'"),
        ({"K": 100}, "MU6052", "b takes no K = 100: K % 64 == 0 must hold"),
        ({"M": 0}, "MU6050", "dim M must be a number from 1 to 2147483647, got '0'"),
        ({"N": 2**31}, "MU6050", "dim N must be a number from 1 to 2147483647, got '2147483648'"),
    ],
)
def test_wrong_hints(dims: dict[str, int], code: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        compiled(**sizes_of(dims)[0].dims)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)


def test_a_hint_may_not_contradict_the_source() -> None:
    only = TEXT.partition("kernel b")[0]
    (found,) = check(only, dims={"K": 512})
    assert (found.code, found.message) == ("MU6052", "dim K is 4096 in the source, --dims says 512")
    assert check(only, dims={"K": 4096, "M": 1}) == ()


def test_the_command_line_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.mcu"
    path.write_text(TEXT)
    assert main([str(path), "--emit=manifest", "--dims", "M=16", "--dims", "N=64"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["kernels"][0]["typical"] == {"M": 16, "N": 64}
    assert main(["check", str(path), "--dims=M=16"]) == 0
    assert main(["check", str(path), "--dims", "Q=16"]) == 2
    assert "error[MU6051]: no kernel has a dim 'Q'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["ast", "mu"])
@pytest.mark.parametrize(
    ("dims", "code"), [("Q=16", "MU6051"), ("K=512", "MU6052"), ("M=16,K=4096", None), ("K=1..4096", None)]
)
def test_levels_without_passes_check_them(
    kind: str, dims: str, code: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.mcu"
    path.write_text(TEXT.partition("kernel b")[0])
    assert main([str(path), f"--emit={kind}", "--dims", dims]) == (2 if code else 0)
    out = capsys.readouterr()
    assert bool(out.out) is (code is None)
    assert (f"error[{code}]" in out.err) is (code is not None) is (f"--> {path}" in out.err)


ROWS = """
kernel product[M, N, K](a: DTYPE[M, K], b: DTYPE[N, K]) -> f32[M, N] {
    return a @ b.T
}
"""
PINNED = "schedule product for sm_90a { mainloop = pingpong }"
ODD = {"M": 64, "N": 64, "K": 65}


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_sizes_that_tma_cannot_copy_choose_a_mainloop_that_can(target: str) -> None:
    found = compile_text(Source("k.mcu", ROWS.replace("DTYPE", "bf16")), Options(target, dims=ODD))
    assert "mainloop  = multistage" in found.emit("schedule")
    assert found.manifest["kernels"][0]["promises"] == []


@pytest.mark.parametrize(("dtype", "helps"), [("bf16", 2), ("e4m3", 1)])
def test_a_pinned_mainloop_holds_against_sizes(dtype: str, helps: int) -> None:
    (found,) = check(ROWS.replace("DTYPE", dtype) + PINNED, dims=ODD)
    assert found.code == "MU6052" and "K = 65" in found.message
    assert found.notes == ("rows of 'a' are copied in multiples of 16 bytes",)
    assert len(found.helps) == helps and ("multistage" in found.helps[-1]) == (dtype == "bf16")
    if dtype == "bf16":
        assert not check(ROWS.replace("DTYPE", dtype) + PINNED.replace("pingpong", "multistage"), dims=ODD)


def test_one_text_is_one_size() -> None:
    assert sizes_of("M=16,N=8") == sizes_of(["M=16,N=8"]) == sizes_of({"M": 16, "N": 8})
