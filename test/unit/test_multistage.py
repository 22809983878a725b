"""Multistage kernels: their rules, their shared memory, what is chosen, and when."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucc.diagnostics import DiagnosticError, Source
from mucc.diagnostics.codes import CODES
from mucc.driver import compile_text
from mucc.target import get_target, multistage
from mucc.target.config import Epilogue, GemmConfig, Granules, Problem, Violation, operand_bytes

SM90 = get_target("sm_90a")
GOOD = GemmConfig("bf16", 2, True, True, (128, 128, 64), (1, 1), "multistage", "persistent")


def broken(stages: int | None = None, **changes: object) -> list[Violation]:
    return SM90.violations(replace(GOOD, **changes), stages)  # type: ignore[arg-type]


CASES: list[tuple[str, str, str, dict[str, object]]] = [
    ("MU3021", "tile", "128x128x64", {"tile": (96, 128, 64)}),
    ("MU3021", "tile", "64x128x64", {"tile": (32, 128, 64), "a_k_major": False}),
    ("MU3021", "tile", "128x128x64", {"tile": (128, 128, 48)}),
    ("MU3021", "tile", "256x128x64", {"tile": (256, 256, 64)}),
    ("MU3021", "tile", "128x128x8", {"compute": "f32", "element_bytes": 4, "tile": (128, 128, 16)}),
    ("MU3022", "cluster", "1x1", {"cluster": (2, 1)}),
    ("MU3023", "scheduler", "split_k(4)", {"scheduler": "stream_k", "splits": 4}),
    ("MU3023", "scheduler", "persistent", {"scheduler": "stream_k"}),
    ("MU3024", "stages", "2", {"stages": 3, "granules": Granules(2, 2, False)}),
    ("MU3004", "stages", "7", {"stages": 8}),
    ("MU3012", "scheduler", "persistent(swizzle=2)", {"swizzle": 3}),
    ("MU3013", "scheduler", "split_k(132)", {"scheduler": "split_k", "splits": 1000}),
    ("MU3017", "stages", "2", {"stages": 1}),
]


@pytest.mark.parametrize(("code", "setting", "fix", "changes"), CASES)
def test_each_rule(code: str, setting: str, fix: str, changes: dict[str, object]) -> None:
    (violation,) = broken(**changes)  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == (code, setting, fix)
    assert violation.notes


def test_a_good_configuration_breaks_no_rule() -> None:
    assert broken() == []
    assert broken(stages=2) == []


@pytest.mark.parametrize("code", ["MU3021", "MU3022", "MU3023", "MU3024", "MU3101"])
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    wrong, mended = re.findall(r"```mcu\n(.*?)```", CODES[code][1], re.DOTALL)
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("wrong.mcu", wrong))
    assert {d.code for d in caught.value.diagnostics} == {code}
    compile_text(Source("mended.mcu", mended))


@st.composite
def configs(draw: st.DrawFn) -> GemmConfig:
    """Configurations whose settings are mostly good by themselves."""
    compute = draw(st.sampled_from(multistage.COMPUTES))
    return GemmConfig(
        compute,
        operand_bytes(compute),
        draw(st.booleans()),
        draw(st.booleans()),
        (
            draw(st.sampled_from((*multistage.SIDES, 96))),
            draw(st.sampled_from((*multistage.SIDES, 16))),
            draw(st.sampled_from((8, 16, 32, 64))),
        ),
        draw(st.sampled_from([(1, 1), (1, 1), (2, 1)])),
        "multistage",
        draw(st.sampled_from(["persistent", "split_k", "stream_k"])),
        Epilogue(4, destination_is_col_major=draw(st.booleans())),
        splits=draw(st.sampled_from([1, 2, 999])),
        granules=draw(st.sampled_from([Granules(), Granules(4, 16), Granules(operand_bytes(compute), 4)])),
    )


@given(configs(), st.one_of(st.none(), st.integers(1, 12)))
def test_a_fix_mends_its_setting(config: GemmConfig, stages: int | None) -> None:
    for violation in SM90.violations(config, stages):
        assert violation.notes
        assert violation.fix, violation
        match violation.setting:
            case "tile":
                m, n, k = map(int, violation.fix.split("x"))
                mended, count = replace(config, tile=(m, n, k)), stages
            case "cluster":
                mended, count = replace(config, cluster=(1, 1)), stages
            case "stages":
                mended, count = config, None if violation.fix == "auto" else int(violation.fix)
            case _:
                assert violation.setting == "scheduler"
                continue
        assert violation not in SM90.violations(mended, count)


@given(configs())
def test_what_is_legal_fits(config: GemmConfig) -> None:
    if SM90.violations(config):
        return
    stages = SM90.max_stages(config)
    assert stages >= 2
    assert SM90.smem_bytes_used(config, stages) <= SM90.smem_bytes
    assert SM90.violations(config, stages) == []
    if not multistage.through_registers(config):
        assert SM90.smem_bytes_used(config, stages + 1) > SM90.smem_bytes


# Choice


def schedule_of(text: str, dims: str = "M, N, K") -> str:
    program = compile_text(Source("f.mcu", text.replace("DIMS", dims)))
    return program.manifest["kernels"][0]["stages"][0]["mainloop"]  # type: ignore[no-any-return, index]


BF16 = "kernel f[DIMS](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] WHERE { return x @ w.T }"


@pytest.mark.parametrize(
    ("dims", "where", "mainloop"),
    [
        ("M, N, K", "", "cooperative"),
        ("M, N, K=4096", "", "cooperative"),
        ("M, N, K=4095", "", "multistage"),
        ("M, N=1001, K", "", "multistage"),
        ("M=1001, N, K", "", "cooperative"),
        ("M, N, K", "where K % 2 == 1", "multistage"),
        ("M, N, K", "where K % 16 == 4", "multistage"),
        ("M, N, K", "where K % 4 == 0", "cooperative"),
        ("M, N, K", "where K % 3 == 1", "cooperative"),
    ],
)
def test_rows_that_tma_cannot_copy_take_another_mainloop(dims: str, where: str, mainloop: str) -> None:
    assert schedule_of(BF16.replace("WHERE", where), dims) == mainloop


@pytest.mark.parametrize("compute", ["tf32x3", "f32"])
def test_formats_that_wgmma_lacks_take_another_mainloop(compute: str) -> None:
    text = "kernel f[DIMS](x: f32[M, K], w: f32[N, K]) -> f32[M, N] { return matmul(x, w.T, compute=C) }"
    assert schedule_of(text.replace("=C", f"={compute}")) == "multistage"


@pytest.mark.parametrize("compute", multistage.COMPUTES)
@pytest.mark.parametrize("granules", [Granules(), Granules(2, 2, False), Granules(4, 8, False)])
def test_candidates_are_legal_and_cover_pinned_settings(compute: str, granules: Granules) -> None:
    if operand_bytes(compute) > granules.a:
        return
    problem = Problem(compute, True, True, granules=granules, m=4096, n=4096, k=4096)
    found = list(SM90.candidates(problem, {"mainloop": "multistage"}))
    assert len(found) == len({c.schedule for c in found}) >= 4
    for candidate in found:
        assert candidate.schedule.mainloop == "multistage"
        assert not SM90.violations(candidate.config, candidate.schedule.stages)
        assert candidate.estimate.seconds == pytest.approx(sum(candidate.estimate.parts.values()))
