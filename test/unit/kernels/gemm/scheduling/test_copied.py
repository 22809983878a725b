"""The cpasync mainloop of sm_90a: its rules, what fits, when it is chosen, what is copied where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rulelib import ACROSS, changed, check_explanation, mend, with_rows

from mucc.compiler.driver import compile_text
from mucc.diagnostics import Source
from mucc.dialects.mu.settings import parse_settings
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.copied_rules import MAINLOOP, granule, kernel
from mucc.kernels.gemm.scheduling.operand import DENSE, Gathered, Grouped, Operand
from mucc.kernels.gemm.settings import pinned_fields

SM90 = gemm_target("sm_90a")
GOOD = GemmConfig(Problem("bf16", b=ACROSS), Schedule((128, 256, 64), (2, 1), MAINLOOP))
NARROW = ((16, 16), (8, 16), (4, 4), (2, 2))
"""Bytes that rows of A and of B are multiples of."""


def test_a_good_configuration_breaks_no_rule() -> None:
    assert SM90.violations(GOOD) == []
    assert SM90.violations(GOOD, 4) == []
    assert SM90.violations(changed(GOOD, scheduler="split_k", splits=3)) == []


@pytest.mark.parametrize(
    ("code", "setting", "fix", "changes"),
    [
        ("MU3027", "tile", "128x256x64", {"tile": (128, 256, 32)}),
        ("MU3027", "tile", "128x256x128", {"tile": (128, 256, 96)}),
        ("MU3001", "tile", "128x256x64", {"tile": (96, 256, 64)}),
        ("MU3006", "tile", "128x256x64", {"tile": (192, 256, 64)}),
        ("MU3010", "scheduler", "persistent", {"tile": (64, 256, 64), "scheduler": "split_k", "splits": 2}),
        (
            "MU3020",
            "mainloop",
            "cooperative",
            {"compute": "tf32", "b": Operand(), "tile": (128, 128, 32)},
        ),
        ("MU3026", "mainloop", "cooperative", {"a": ACROSS}),
        ("MU3028", "exchange", "off", {"b": Operand(False, form=Gathered()), "exchanged": True}),
        ("MU3091", "scheduler", "persistent", {"b": Operand(False, form=Grouped()), "scheduler": "stream_k"}),
    ],
)
def test_each_rule(code: str, setting: str, fix: str, changes: dict[str, object]) -> None:
    (violation,) = SM90.violations(changed(GOOD, **changes))  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == (code, setting, fix)
    assert violation.notes


def test_what_follows_of_another_error_is_not_said() -> None:
    """Pieces of 128 rows suit the mainloop that the first error leads to."""
    wrong = changed(GOOD, a=ACROSS, tile=(192, 256, 128), epilogue_tile=(128, 32))
    assert [(v.code, v.fix) for v in SM90.violations(wrong)] == [
        ("MU3026", "cooperative"),
        ("MU3006", "128x256x128"),
    ]


@pytest.mark.parametrize("code", ["MU3026", "MU3027", "MU3028"])
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    check_explanation(code)


@st.composite
def configs(draw: st.DrawFn) -> GemmConfig:
    """Configurations whose settings are mostly good by themselves."""
    first = Gathered() if draw(st.booleans()) else DENSE
    second = Grouped() if draw(st.booleans()) else DENSE
    if exchanged := draw(st.booleans()):
        first, second = second, first
    problem = Problem(
        draw(st.sampled_from(("bf16", "f16"))),
        Operand(draw(st.sampled_from((True, True, False))), form=first),
        Operand(draw(st.booleans()), form=second),
        Epilogue(draw(st.sampled_from((2, 4)))),
    )
    problem = with_rows(problem, *draw(st.sampled_from(NARROW)))
    schedule = Schedule(
        (
            draw(st.sampled_from((64, 96, 128, 192, 256))),
            draw(st.sampled_from((16, 40, 64, 128, 256))),
            draw(st.sampled_from((32, 64, 128))),
        ),
        draw(st.sampled_from(((1, 1), (2, 1), (1, 2), (4, 4)))),
        MAINLOOP,
        draw(st.sampled_from(("persistent", "persistent", "split_k", "stream_k"))),
        splits=draw(st.sampled_from((1, 2, 999))),
        swizzle=draw(st.sampled_from((1, 2, 3))),
        exchanged=exchanged,
        pdl=draw(st.booleans()),
    )
    return GemmConfig(problem, schedule)


@given(configs(), st.one_of(st.none(), st.integers(1, 12)))
def test_fixes_lead_to_a_legal_configuration(config: GemmConfig, stages: int | None) -> None:
    mended, count = mend(SM90, config, stages)
    assert SM90.violations(mended, count) == []


@given(configs())
def test_what_is_legal_fits_as_the_kernel_by_tma_would(config: GemmConfig) -> None:
    if SM90.violations(config):
        return
    stages = SM90.max_stages(config)
    other = config.having(mainloop=kernel(config.schedule.tile))
    assert stages == SM90.max_stages(other) >= 2
    assert SM90.smem_bytes_used(config, stages) == SM90.smem_bytes_used(other, stages) <= SM90.smem_bytes
    assert SM90.violations(config, stages) == []
    assert SM90.violations(config, stages + 1) != []


@pytest.mark.parametrize(("rows", "bytes"), list(zip(NARROW, (16, 8, 4, 0), strict=True)))
def test_what_is_copied_at_a_time(rows: tuple[int, int], bytes: int) -> None:
    problem = with_rows(GOOD.problem, *rows)
    assert granule(problem) == bytes
    for exchanged, name in ((False, "a"), (True, "b")):
        config = GemmConfig(problem, replace(GOOD.schedule, exchanged=exchanged))
        assert SM90.copies(config) == ({name: bytes} if bytes else {})
        assert SM90.copies(config.having(mainloop="cooperative")) == {}


# Choice

GATHER = """kernel f[T, DIMS](x: bf16[T, K], rows: s32[M], w: bf16[N, K]) -> bf16[M, N] {
    return gather(x, rows) @ w.T
}
"""
GROUPED = """kernel f[T, E, DIMS](x: bf16[T, K], rows: s32[M], o: s32[E], w: bf16[E, N, K]) -> bf16[M, N] {
    return grouped_matmul(gather(x, rows), w.T, o)
}
"""


def stages_of(text: str, dims: str = "M, N, K", mainloop: str = "") -> dict[str, str | None]:
    """The stages of a program, with the mainloops of contractions."""
    schedule = f"schedule f for sm_90a {{\n    mainloop = {mainloop}\n}}\n" if mainloop else ""
    made = compile_text(Source("f.mcu", text.replace("DIMS", dims) + schedule))
    return {stage["name"]: stage.get("mainloop") for stage in made.manifest["kernels"][0]["stages"]}


@pytest.mark.parametrize(
    ("grouped", "sizes", "mainloop"),
    [
        (False, (4096, 2048, 2048, 1), MAINLOOP),
        (False, (16384, 16384, 8192, 1), "cooperative"),
        (True, (256, 768, 2048, 128), MAINLOOP),
        (True, (32, 768, 2048, 128), MAINLOOP),
        (True, (2048, 14336, 4096, 8), "cooperative"),
    ],
)
def test_what_was_faster_on_an_h200_is_chosen(
    grouped: bool, sizes: tuple[int, int, int, int], mainloop: str
) -> None:
    m, n, k, batch = sizes
    right = Operand(k_major=False, form=Grouped() if grouped else DENSE)
    problem = Problem("bf16", Operand(form=Gathered()), right, Epilogue(2), m, n, k, batch)
    assert SM90.default_schedule(problem).mainloop == mainloop


def test_rows_of_eight_bytes_are_padded_unless_asked_for() -> None:
    problem = with_rows(Problem("bf16", m=4096, n=4096, k=1004), 8, 16)
    own, padded = (SM90.default_schedule(problem, {"mainloop": word}) for word in (MAINLOOP, "cooperative"))
    assert SM90.estimate(problem, own).seconds > SM90.estimate(problem, padded).seconds
    assert SM90.default_schedule(problem).mainloop == "cooperative"


@pytest.mark.parametrize("text", [GATHER, GROUPED])
def test_picked_rows_are_not_copied(text: str) -> None:
    assert stages_of(text, mainloop=MAINLOOP) == {"out": MAINLOOP}
    assert stages_of(text, mainloop="cooperative") == {"out.pick": None, "out": "cooperative"}


def test_the_copy_of_picked_rows_is_part_of_the_estimate() -> None:
    problem = Problem("bf16", Operand(form=Gathered()), ACROSS, m=8192, n=4096, k=4096)
    plain = problem._replace(a=Operand())
    for mainloop in ("cooperative", "multistage"):
        schedule = Schedule((128, 128, 64), mainloop=mainloop)
        copied, read = SM90.estimate(problem, schedule), SM90.estimate(plain, schedule)
        assert copied.seconds > read.seconds
        assert copied.bytes == read.bytes + 2 * 2 * 8192 * 4096
        assert sum(copied.parts.values()) == pytest.approx(copied.seconds)
    own = Schedule((128, 128, 64), mainloop=MAINLOOP)
    found = SM90.estimate(problem, own)
    assert found == SM90.estimate(plain, own)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("pins", [{}, {"tile": "64x128x64"}, {"cluster": "1x2"}])
def test_candidates_are_legal_and_cover_pinned_settings(grouped: bool, pins: dict[str, str]) -> None:
    right = Operand(form=Grouped() if grouped else DENSE)
    problem = Problem(
        "bf16", Operand(form=Gathered()), right, Epilogue(), 2048, 2048, 1024, 8 if grouped else 1
    )
    fixed = parse_settings({**pins, "mainloop": MAINLOOP})
    found = list(SM90.candidates(problem, pinned_fields(fixed)))
    assert found
    for candidate in found:
        assert SM90.violations(candidate.config, candidate.schedule.stages) == []
        assert candidate.estimate.seconds > 0
