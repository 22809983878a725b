"""sm_100a: legality, default schedules, and the text of its kernels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rulelib import apply, changed, check_explanation, configs, epilogues, mend

from mucc.build.toolchain.assembly import host_flags
from mucc.build.toolchain.discover import find_toolchain
from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics.codes_families import CODES
from mucc.diagnostics.core import Source
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand
from mucc.kernels.violation import Violation

SM100 = gemm_target("sm_100a")
GOOD = GemmConfig(Problem("bf16"), Schedule((128, 256, 64), (2, 1), "two_sm"))
GEMM = "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}\n"


def broken(stages: int | None = None, **changes: object) -> list[Violation]:
    return SM100.violations(changed(GOOD, **changes), stages)  # type: ignore[arg-type]


def test_a_good_configuration_breaks_no_rule() -> None:
    assert broken() == broken(stages=4) == []


CASES: list[tuple[str, str, str | None, dict[str, object]]] = [
    ("MU3001", "tile", "128x256x64", {"tile": (256, 256, 64)}),
    ("MU3002", "tile", "128x256x64", {"tile": (128, 240, 64)}),
    ("MU3003", "tile", "128x256x32", {"tile": (128, 256, 40)}),
    ("MU3004", "stages", "6", {"stages": 7}),
    ("MU3005", "tile", "128x160x256", {"tile": (128, 256, 256)}),
    ("MU3008", "cluster", "2x1", {"cluster": (3, 1)}),
    ("MU3009", "cluster", "4x1", {"tile": (128, 32, 64), "cluster": (8, 1)}),
    ("MU3011", "mainloop", "two_sm", {"mainloop": "cooperative"}),
    ("MU3011", "mainloop", "one_sm", {"mainloop": "cooperative", "cluster": (1, 2)}),
    ("MU3012", "scheduler", "persistent(swizzle=2)", {"swizzle": 3}),
    ("MU3013", "scheduler", "split_k(148)", {"scheduler": "split_k", "splits": 1000}),
    ("MU3017", "stages", "2", {"stages": 1}),
    ("MU3020", "mainloop", None, {"compute": "f32", "tile": (128, 128, 32)}),
    ("MU3070", "tile", "128x256x32", {"tile": (128, 512, 32)}),
    ("MU3071", "cluster", "2x2", {"cluster": (1, 2)}),
    ("MU3072", "tile", "64x64x64", {"tile": (64, 80, 64), "mainloop": "one_sm"}),
]


@pytest.mark.parametrize(("code", "setting", "fix", "changes"), CASES)
def test_each_rule(code: str, setting: str, fix: str | None, changes: dict[str, object]) -> None:
    violation = broken(**changes)[0]  # type: ignore[arg-type]
    assert (violation.code, violation.setting) == (code, setting)
    assert violation.notes
    if fix is not None:
        config, stages = apply(
            violation, changed(GOOD, **{k: v for k, v in changes.items() if k != "stages"}), None
        )
        assert SM100.violations(config, stages) == []
    assert violation.fix == fix


@pytest.mark.parametrize("code", [code for code in CODES if "MU3070" <= code <= "MU3072"])
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    check_explanation(code, "sm_100a")


operands = st.sampled_from(
    [(c, a, b) for c in ("bf16", "f16", "tf32") for a in (True, False) for b in (True, False)]
    + [(c, True, True) for c in ("e4m3", "e5m2", "s8", "u8")]
)


MAINLOOPS = ("one_sm", "two_sm", "cooperative")


@settings(max_examples=examples(60))
@given(configs(operands, MAINLOOPS, st.just((128, 32))), st.none() | st.integers(0, 12))
def test_fixes_lead_to_a_legal_configuration(config: GemmConfig, stages: int | None) -> None:
    config, stages = mend(SM100, config, stages)
    most = SM100.max_stages(config)
    assert most >= 2
    assert SM100.smem_bytes_used(config, most) <= SM100.smem_bytes < SM100.smem_bytes_used(config, most + 1)


@settings(max_examples=examples(40))
@given(operands, epilogues, st.none() | st.integers(1, 20000), st.none() | st.integers(1, 20000))
def test_default_schedules_break_no_rule(
    kind: tuple[str, bool, bool], epilogue: Epilogue, m: int | None, n: int | None
) -> None:
    problem = Problem(kind[0], *map(Operand, kind[1:]), epilogue, m, n, 4096)
    assert SM100.violations(problem.config(SM100.default_schedule(problem))) == []


def test_kernels_are_written_for_blackwell() -> None:
    schedule = (
        "schedule f for sm_100a {\n    tile = 128x128x64\n    cluster = 2x1\n    mainloop = two_sm\n}\n"
    )
    text = compile_text(Source("f.mcu", GEMM + schedule), Options(target="sm_100a")).emit("cu")
    assert "#include <mucc/gemm_sm100.cuh>" in text
    assert "using TileShape = cute::Shape<cute::Int<128>, cute::Int<128>, cute::Int<64>>;" in text
    assert "using MmaShape = cute::Shape<cute::Int<256>, cute::Int<128>, cute::Int<64>>;" in text
    assert "cutlass::gemm::KernelTmaWarpSpecialized2SmSm100" in text
    assert "cutlass::arch::Sm90" not in text


@pytest.mark.long
@pytest.mark.nvcc
def test_cutlass_multiplies_operands_of_two_signs(tmp_path: Path) -> None:
    toolchain = find_toolchain()
    text = "kernel f[M, N, K](x: s8[M, K], w: u8[N, K]) -> s32[M, N] {\n    return x @ w.T\n}\n"
    (skeleton,) = compile_text(Source("k.mcu", text), Options("sm_100a")).parts().skeletons
    (tmp_path / "k.cpp").write_text(skeleton.host)
    command = ("{cxx}", *host_flags(toolchain), "-fsyntax-only", "-include", "mucc_shim.h", "k.cpp")
    words = [word.format(**toolchain.tools()) for word in command]
    built = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[:2000]
