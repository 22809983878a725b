"""Skinny contractions: rules, the arithmetic that Python and C++ share, the choice, and what is compiled."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path

import pytest
from budget import examples
from hostlib import build
from hypothesis import given, settings
from hypothesis import strategies as st
from rulelib import ACROSS, changed, check_explanation, mend

from mucc.build.toolchain import nvrtc
from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import Source
from mucc.diagnostics.codes import CODES
from mucc.files.package import INCLUDES
from mucc.kernels.gemm.scheduling import gemm_target, skinny
from mucc.kernels.gemm.scheduling.config import GemmConfig, Problem, Schedule, operand_bytes
from mucc.kernels.gemm.scheduling.operand import Operand
from mucc.kernels.violation import Violation

SM90 = gemm_target("sm_90a")
GOOD = GemmConfig(Problem("bf16"), Schedule((8, 32, 64), (1, 1), "skinny"))
F32 = {"compute": "f32"}


def broken(stages: int | None = None, **changes: object) -> list[Violation]:
    return SM90.violations(changed(GOOD, **changes), stages)  # type: ignore[arg-type]


CASES: list[tuple[str, str, str | None, dict[str, object]]] = [
    ("MU3050", "tile", "16x32x32", {"tile": (12, 32, 64)}),
    ("MU3050", "tile", "32x32x32", {"tile": (64, 64, 64)}),
    ("MU3050", "tile", "4x32x16", {**F32, "tile": (3, 32, 64)}),
    ("MU3051", "tile", "8x32x32", {"tile": (8, 40, 64)}),
    ("MU3051", "tile", "8x128x16", {"tile": (8, 32, 64), "b": ACROSS}),
    ("MU3052", "tile", "8x32x32", {"tile": (8, 32, 40)}),
    ("MU3053", "tile", "32x32x32", {"tile": (32, 128, 32)}),
    ("MU3053", "tile", "16x16x64", {**F32, "tile": (16, 64, 16)}),
    ("MU3054", "cluster", "1x1", {"cluster": (2, 1)}),
    ("MU3055", "scheduler", "persistent", {"scheduler": "stream_k"}),
    ("MU3055", "scheduler", "persistent", {"swizzle": 2}),
    ("MU3055", "scheduler", "split_k(8)", {"scheduler": "split_k", "splits": 12}),
    ("MU3056", "stages", "auto", {"stages": 9}),
    ("MU3057", "mainloop", None, {"compute": "tf32x3"}),
    ("MU3057", "mainloop", None, {"compute": "s8", "b": ACROSS}),
    ("MU3058", "tile", "8x32x32", {"tile": (8, 64, 256)}),
    ("MU3058", "stages", "auto", {"tile": (8, 64, 64), "stages": 8}),
    ("MU3058", "tile", "32x8x32", {"tile": (64, 8, 256)}),
    ("MU3059", "mainloop", None, {"rights": 2}),
]


@pytest.mark.parametrize(("code", "setting", "fix", "changes"), CASES)
def test_each_rule(code: str, setting: str, fix: str | None, changes: dict[str, object]) -> None:
    (violation,) = broken(**changes)  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == (code, setting, fix)
    assert violation.notes


def test_every_rule_is_tried() -> None:
    assert {code for code, *_ in CASES} == {code for code in CODES if "MU3050" <= code <= "MU3059"}


@pytest.mark.parametrize("code", sorted({code for code, *_ in CASES} - {"MU3059"}))
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    check_explanation(code)


@pytest.mark.parametrize("splits", [2, 3])
def test_a_target_without_clusters_does_not_divide_k_between_blocks(splits: int) -> None:
    config = changed(GOOD, scheduler="split_k", splits=splits)
    (violation,) = skinny.violations(SM90.facts, config, None, clusters=False)
    assert (violation.code, violation.fix) == ("MU3055", "persistent")
    assert not skinny.violations(SM90.facts, config.having(splits=1), None, clusters=False)


kinds = st.sampled_from([(c, operand_bytes(c)) for c in skinny.COMPUTE])
sizes = st.integers(1, 300) | st.sampled_from((8, 16, 32, 64, 128))


@st.composite
def configs(draw: st.DrawFn) -> GemmConfig:
    compute, size = draw(kinds)
    along = size == 1
    problem = Problem(compute, *(Operand(along or draw(st.booleans())) for _ in "ab"))
    schedule = Schedule(
        draw(st.tuples(sizes, sizes, sizes)),
        draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
        "skinny",
        draw(st.sampled_from(("persistent", "stream_k", "split_k"))),
        splits=draw(st.integers(1, 20)),
        swizzle=draw(st.integers(1, 4)),
    )
    return GemmConfig(problem, schedule)


@settings(max_examples=examples(100))
@given(configs(), st.none() | st.integers(0, 10))
def test_fixes_lead_to_a_legal_configuration(config: GemmConfig, stages: int | None) -> None:
    config, stages = mend(SM90, config, stages)
    most = SM90.max_stages(config)
    assert 2 <= most <= skinny.MOST_STAGES
    assert SM90.smem_bytes_used(config, most) <= SM90.smem_bytes


# The choice

extents = st.none() | st.integers(1, 20000)


@settings(max_examples=examples(60))
@given(kinds, st.booleans(), st.booleans(), extents, extents, extents)
def test_default_schedules_are_legal(
    kind: tuple[str, int], a: bool, b: bool, m: int | None, n: int | None, k: int | None
) -> None:
    narrow = kind[1] == 1
    problem = Problem(kind[0], Operand(a or narrow), Operand(b or narrow), m=m, n=n, k=k)
    config = problem.config(SM90.default_schedule(problem, {"mainloop": "skinny"}))
    assert SM90.violations(config) == []
    form = skinny.form_of(config)
    if m is not None and n is not None:
        assert skinny.weights_are_a(config.schedule.tile) == (n < m)
        assert form.few >= min(m, n, 8)


def test_sixteen_rows_are_left_to_kernels_that_load_by_tma() -> None:
    choice = SM90.default_schedule(Problem("bf16", m=16, n=4096, k=14336))
    assert choice.mainloop != "skinny" and choice.tile[1] == 16


@pytest.mark.parametrize("rows", [1, 4, 8])
@pytest.mark.parametrize("weights", [4096, 28672])
def test_few_rows_are_known_to_be_skinny(rows: int, weights: int) -> None:
    rows_first = SM90.default_schedule(Problem("bf16", m=rows, n=weights, k=4096))
    rows_last = SM90.default_schedule(Problem("bf16", m=weights, n=rows, k=4096))
    for choice, few in ((rows_first, 0), (rows_last, 1)):
        assert choice.mainloop == "skinny"
        assert choice.tile[few] == max(rows, 8)


def test_other_targets_have_them_too() -> None:
    choice = gemm_target("sm_100a").default_schedule(Problem("bf16", m=4, n=4096, k=4096))
    assert choice.mainloop == "skinny"


def test_many_rows_are_not_skinny() -> None:
    assert SM90.default_schedule(Problem("bf16", m=512, n=4096, k=4096)).mainloop != "skinny"
    assert SM90.default_schedule(Problem("bf16")).mainloop != "skinny"
    pair = Problem("bf16", m=8, n=4096, k=4096, rights=2)
    assert SM90.default_schedule(pair).mainloop != "skinny"


def test_an_estimate_is_bytes_over_bandwidth() -> None:
    problem = Problem("bf16", m=4, n=28672, k=8192)
    estimate = SM90.estimate(problem, SM90.default_schedule(problem, {"mainloop": "skinny"}))
    assert estimate.limit == "DRAM"
    assert estimate.bytes == 2 * (28672 * 8192 + 4 * 8192 + 4 * 28672)
    assert estimate.seconds == pytest.approx(sum(estimate.parts.values()))
    ceiling = estimate.bytes / SM90.facts.devices[0].datasheet["dram_bandwidth"]
    assert ceiling < estimate.seconds < 1.5 * ceiling


# The arithmetic of the headers

CHECK = r"""
#include <mucc/skinny_launch.h>
#include <cstdio>
using namespace mucc;
template <int F, int M, int S, int G>
struct Op {
  using Element = bf16;
  using FewElement = bf16;
  static constexpr int kFew = F, kMany = M, kStep = S, kStages = G;
};
template <class T> struct Kind { using Element = T; };
extern "C" int bytes_8x32x64(int warps) {
  using O = Op<8, 32, 64, 3>;
  return skinny::Shared<O, skinny::step_bytes<O>()>::bytes(warps);
}
extern "C" int bytes_16x16x32(int warps) {
  using O = Op<16, 16, 32, 2>;
  return skinny::Shared<O, skinny::step_bytes<O>()>::bytes(warps);
}
extern "C" void plan(int few, int many, int k, int batch, int splits, int most, long long* out) {
  auto p = skinny::plan({few, many, k, batch}, 8, 32, 64, splits, most, 132);
  out[0] = p.tiles, out[1] = p.splits, out[2] = p.warps;
}
template <bool A>
struct O {
  using Element = bf16;
  using FewElement = bf16;
  static constexpr bool kAlongK = A;
  skinny::Operand weights, few;
};
template <bool A> int choose(long long at, long long row, long long few_row, int many, int k) {
  O<A> op{{(void*)at, A ? row : 1, A ? 1 : row, 0}, {(void*)at, few_row, 1, 0}};
  return skinny::access(op, {4, many, k, 1});
}
extern "C" int access(int along_k, long long at, long long row, long long few_row, int many, int k) {
  return along_k ? choose<true>(at, row, few_row, many, k) : choose<false>(at, row, few_row, many, k);
}
"""


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    folder = tmp_path_factory.mktemp("skinny")
    source = folder / "check.cpp"
    exported = CHECK.replace('extern "C"', 'extern "C" __attribute__((visibility("default")))')
    source.write_text("#include <mucc/launch.h>\n" + exported)
    return ct.CDLL(str(build(source, folder / "check.so", link_cuda=True)))


def test_shared_memory_is_counted_as_in_the_header(header: ct.CDLL) -> None:
    assert header.bytes_8x32x64(skinny.WARPS) == skinny.smem_bytes(GOOD, 3)
    small = changed(GOOD, tile=(16, 16, 32))
    assert header.bytes_16x16x32(skinny.WARPS) == skinny.smem_bytes(small, 2)


@pytest.mark.parametrize(
    ("problem", "splits", "most", "expected"),
    [
        ((1, 4096, 4096, 1), 0, 8, (128, 2, 8)),  # 128 tiles for 132 multiprocessors: twice as many blocks
        ((8, 28672, 8192, 1), 0, 8, (896, 1, 8)),
        ((9, 4096, 4096, 1), 0, 8, (128, 1, 8)),  # two tiles of the small operand: 256 blocks as they are
        ((1, 256, 16384, 1), 0, 8, (8, 8, 8)),
        ((1, 256, 16384, 1), 0, 1, (8, 1, 8)),  # a target without clusters
        ((1, 256, 16384, 1), 4, 8, (8, 4, 8)),
        ((1, 256, 512, 64), 0, 8, (8, 1, 8)),
        ((1, 33, 65, 1), 0, 8, (2, 1, 2)),  # two steps: two warps
        ((1, 1, 1, 1), 0, 8, (1, 1, 1)),
        ((1, 32, 128, 1), 8, 8, (1, 8, 1)),  # more blocks than steps
    ],
)
def test_work_is_divided(
    header: ct.CDLL, problem: tuple[int, int, int, int], splits: int, most: int, expected: tuple[int, ...]
) -> None:
    out = (ct.c_longlong * 3)()
    header.plan(*problem, splits, most, out)
    assert tuple(out) == expected


@pytest.mark.parametrize(
    ("along_k", "at", "row", "few_row", "many", "k", "expected"),
    [
        (1, 16, 64, 64, 7, 64, 0),
        (1, 8, 64, 64, 7, 64, 2),  # the address
        (1, 16, 65, 64, 7, 64, 2),  # the weights' rows
        (1, 16, 72, 64, 7, 65, 2),  # K ends within a piece
        (1, 16, 64, 65, 7, 64, 1),  # the small operand's rows
        (0, 16, 64, 64, 64, 12, 0),  # across K eight bytes of the small operand do
        (0, 16, 64, 13, 64, 13, 1),
        (0, 16, 65, 64, 64, 64, 2),
        (0, 16, 72, 64, 65, 64, 2),
    ],
)
def test_access_suits_what_a_call_brings(
    header: ct.CDLL, along_k: int, at: int, row: int, few_row: int, many: int, k: int, expected: int
) -> None:
    arguments = (ct.c_int(along_k), *map(ct.c_longlong, (at, row, few_row)), ct.c_int(many), ct.c_int(k))
    assert header.access(*arguments) == expected


# What is compiled

PROGRAMS = Path(__file__).resolve().parents[4] / "gpu" / "programs"


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("skinny_bf16", "sm_90a"),
        ("skinny_bf16", "sm_100a"),
        ("skinny_f32", "sm_90a"),
        ("skinny_narrow", "sm_90a"),
        ("skinny_epilogue", "sm_90a"),
    ],
)
def test_nvrtc_compiles_kernels_with_their_bodies(name: str, target: str) -> None:
    if nvrtc.version() is None:
        pytest.skip("needs NVRTC: pip install 'mucc[nvcc]'")
    text = (PROGRAMS / f"{name}.mcu").read_text(encoding="utf-8").replace("sm_90a", target)
    parts = compile_text(Source(f"{name}.mcu", text), Options(target=target)).parts()
    assert parts.skeletons == ()
    for image in parts.images:
        if "skinny" not in image.source:
            continue
        made = nvrtc.compile_ptx(image.source, target=target, include=INCLUDES)
        assert made.ptx.count(".entry") == 3
        assert "cp.async.cg.shared.global.L2::256B" in made.ptx
        assert ("mma.sync" in made.ptx) != ("kExact = true" in image.source)
