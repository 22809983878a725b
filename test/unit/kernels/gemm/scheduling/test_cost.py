"""The choice of schedules: candidates are legal, estimates obey physics, what is pinned stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice, pairwise
from math import isfinite

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from mucc.compiler.program import compile_source
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.settings import parse_settings
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.config import Candidate, Epilogue, Problem, Schedule
from mucc.kernels.gemm.scheduling.cost import Extents, Walk, divide, effective_swizzle, larger
from mucc.kernels.gemm.scheduling.operand import DENSE, Form, Narrow, Operand
from mucc.kernels.gemm.scheduling.sm90_cost import Sm90Cost
from mucc.kernels.gemm.scheduling.sm90_rules import GROUPED, PLAIN_COLUMNS
from mucc.kernels.gemm.scheduling.sm90_schedule import TMA
from mucc.kernels.gemm.settings import pinned_fields

SM90 = gemm_target("sm_90a")
H200 = SM90.facts.devices[0]

extents = st.integers(1, 20000)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Contractions of known extents."""
    compute = draw(st.sampled_from(("bf16", "f16", "tf32")))
    epilogue = draw(st.sampled_from((Epilogue(2), Epilogue(4), Epilogue(2, 2), Epilogue(4, 4, (2,), (2,)))))
    m, n, k = (draw(extents) for _ in range(3))
    return Problem(compute, Operand(), Operand(), epilogue, m, n, k, draw(st.sampled_from((None, 1, 3, 16))))


def moved(problem: Problem) -> float:
    """Bytes that have to pass between DRAM and the card whatever the schedule."""
    m, n, k, batch, _ = Extents.of(problem)
    element = 4 if problem.compute == "tf32" else 2
    e = problem.epilogue
    outer = (e.destination or 0) + (e.source or 0) + sum(e.aux_loads) + sum(e.aux_stores)
    return float(batch * ((m + n) * k * element + m * n * outer))


def best(problem: Problem, fixed: Mapping[str, str] = {}) -> Candidate:
    return next(SM90.candidates(problem, pinned_fields(parse_settings(fixed))))


@settings(max_examples=6)
@given(problems())
def test_estimates_are_above_the_speed_of_light(problem: Problem) -> None:
    flops = Extents.of(problem).flops
    for candidate in islice(SM90.candidates(problem), 40):
        estimate = candidate.estimate
        assert isfinite(estimate.seconds)
        assert estimate.seconds >= flops / H200.datasheet[problem.compute]
        assert estimate.seconds >= moved(problem) / H200.datasheet["dram_bandwidth"]
        assert sum(estimate.parts.values()) == pytest.approx(estimate.seconds)
        assert all(seconds >= -1e-12 for seconds in estimate.parts.values()), estimate.parts
        assert estimate.flops == flops
        assert 0 <= estimate.tail < 1
        assert estimate.waves > 0 < estimate.blocks


@settings(max_examples=6)
@given(problems(), st.sampled_from(("m", "n", "k")))
def test_twice_the_work_takes_no_less_time(problem: Problem, axis: str) -> None:
    twice = problem._replace(**{axis: 2 * getattr(problem, axis)})
    assert best(twice).estimate.seconds >= 0.97 * best(problem).estimate.seconds


@settings(max_examples=6)
@given(problems())
def test_candidates_are_legal_unique_and_in_order(problem: Problem) -> None:
    found = list(SM90.candidates(problem))
    assert found
    schedules = [c.schedule for c in found]
    assert len(set(schedules)) == len(schedules)
    assert all(a.estimate.seconds <= b.estimate.seconds for a, b in pairwise(found))
    for candidate in found:
        assert candidate.config == problem.config(candidate.schedule)
        assert SM90.violations(candidate.config, candidate.schedule.stages) == []
        assert candidate.estimate == SM90.estimate(problem, candidate.schedule)
    assert SM90.default_schedule(problem) == schedules[0]
    assert [c.schedule for c in SM90.candidates(problem)] == schedules


PINS = {
    "tile": lambda s: "x".join(map(str, s.tile)),
    "cluster": lambda s: "x".join(map(str, s.cluster)),
    "mainloop": lambda s: s.mainloop,
    "scheduler": lambda s: {
        "persistent": f"persistent(raster={s.raster}, swizzle={s.swizzle})",
        "stream_k": f"stream_k(splits={s.splits})",
        "split_k": f"split_k({s.splits})",
    }[s.scheduler],
    "exchange": lambda s: "on" if s.exchanged else "off",
}
"""How each setting of a schedule is written."""

schedules = st.builds(
    Schedule,
    tile=st.tuples(
        st.sampled_from((64, 128, 192, 256)), st.integers(1, 16).map(lambda x: 16 * x), st.just(64)
    ),
    cluster=st.sampled_from(((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (8, 1))),
    mainloop=st.sampled_from(("cooperative", "pingpong", "warpspecialized")),
    scheduler=st.sampled_from(("persistent", "stream_k", "split_k")),
    raster=st.just("heuristic"),
    swizzle=st.just(1),
    splits=st.sampled_from((1, 2, 7)),
    exchanged=st.booleans(),
)


@settings(max_examples=examples(25))
@given(problems(), schedules, st.sets(st.sampled_from(sorted(PINS))))
def test_pins_of_a_legal_schedule_lead_to_a_legal_schedule(
    problem: Problem, schedule: Schedule, names: set[str]
) -> None:
    problem = problem._replace(compute="bf16")
    if schedule.scheduler == "persistent":
        schedule = replace(schedule, splits=1)
    if not SM90.is_legal(problem.config(schedule)):
        return
    fixed = {name: PINS[name](schedule) for name in names}
    choice = SM90.default_schedule(problem, pinned_fields(parse_settings(fixed)))
    assert SM90.violations(problem.config(choice), choice.stages) == []
    assert {name: PINS[name](choice) for name in names} == fixed


def test_a_problem_of_one_wave_prefers_what_fills_the_card() -> None:
    few = best(Problem("bf16", m=128, n=4096, k=4096))
    assert few.estimate.waves > 0.7
    assert min(few.schedule.tile[:2]) <= 64


@pytest.mark.parametrize(
    ("m", "n", "k", "waves"),
    [(1024, 3584, 18944, 1), (1024, 4608, 3584, 1), (512, 14336, 4096, 2), (6304, 1024, 4096, 2)],
)
def test_tiles_are_as_wide_as_the_waves_want_them(m: int, n: int, k: int, waves: int) -> None:
    chosen = best(Problem("bf16", m=m, n=n, k=k, batch=1))
    assert 0.96 < chosen.estimate.waves / waves <= 1


@pytest.mark.parametrize("cluster", ["192x1", "16x16"])
def test_clusters_that_no_card_holds_are_errors(cluster: str) -> None:
    text = (
        "kernel f[M, N, K](x: bf16[M, K], w: bf16[N, K]) -> bf16[M, N] {\n    return x @ w.T\n}\n"
        f"schedule f for sm_90a {{\n    cluster = {cluster}\n}}\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        compile_source(Source("f.mcu", text), "sm_90a", only_check=True)
    assert [d.code for d in caught.value.diagnostics] == ["MU3008"]


def test_blocks_of_few_rows_share_them() -> None:
    chosen = best(Problem("bf16", m=64, n=10240, k=8192, batch=1))
    assert max(chosen.schedule.cluster) == 4


def test_widths_that_take_long_to_compile_are_worth_it() -> None:
    """128x112 tiles are 3 % faster than 128x128, by the model."""
    chosen = best(Problem("bf16", m=128, n=14336, k=4096, batch=1))
    assert chosen.schedule.tile[1] in PLAIN_COLUMNS


def test_blocks_of_tiles_that_add_a_wave_are_not_walked() -> None:
    """33 rows of tiles and 8 columns are two waves of 132; with 34 rows they are three."""
    fixed = {"tile": "192x128x64", "cluster": "1x2", "mainloop": "pingpong"}
    chosen = best(Problem("bf16", m=6304, n=1024, k=4096, batch=1), fixed)
    assert (chosen.schedule.swizzle, chosen.estimate.waves) == (1, 2)


@settings(max_examples=6)
@given(problems())
def test_no_estimate_is_below_the_bound_that_proposals_are_pruned_by(problem: Problem) -> None:
    cost = Sm90Cost(SM90.facts, H200, problem)
    for schedule, _, estimate in SM90.candidates(problem):
        if schedule.mainloop in GROUPED and schedule.scheduler == "persistent" and not schedule.exchanged:
            waves = cost.waves(schedule.tile, schedule.cluster)
            assert cost.least(schedule.tile, schedule.cluster, waves) <= 1.000001 * estimate.seconds


def test_an_estimate_depends_on_the_card() -> None:
    h100 = next(d for d in SM90.facts.devices if "H100" in d.name)
    problem = Problem("bf16", m=64, n=28672, k=4096)
    schedule = Schedule((64, 64, 128), mainloop="pingpong")
    assert SM90.estimate(problem, schedule, h100).seconds > 1.2 * SM90.estimate(problem, schedule).seconds


# The parts of the model


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 8))
def test_a_swizzle_needs_a_grid_of_its_size(rows: int, columns: int, most: int) -> None:
    swizzle = effective_swizzle(rows, columns, most)
    assert swizzle in (1, 2, 4, 8)
    assert swizzle == 1 or (swizzle <= most and min(rows, columns) > swizzle // 2)


@given(
    st.integers(1, 4096),
    st.integers(1, 300),
    st.sampled_from((Schedule((128, 128, 64)), Schedule((128, 128, 64), scheduler="stream_k"))),
    st.integers(1, 20),
)
def test_dividing_k_loses_no_work(tiles: int, steps: int, schedule: Schedule, splits: int) -> None:
    for scheduled in (schedule, replace(schedule, scheduler="split_k", splits=splits)):
        division = divide(tiles, steps, 132, scheduled)
        assert division.units * division.depth >= 0.999 * tiles * steps
        assert 1 <= division.peers <= max(steps, 1) + 1


@given(st.integers(1, 40000), st.integers(1, 40000), st.sampled_from((1, 2, 4, 8)), st.booleans())
def test_loads_from_dram_lie_between_once_and_once_for_each_tile(
    m: int, n: int, swizzle: int, along_m: bool
) -> None:
    schedule = Schedule((128, 256, 64), raster="along_m" if along_m else "along_n", swizzle=swizzle)
    walk = Walk.of(Extents(m, n, 4096, 1, True), schedule)
    loads = walk.dram_loads(2.0, 3.0, 132, 40.0)
    once = 2.0 * walk.rows + 3.0 * walk.columns
    assert 0.999 * once <= loads <= 1.001 * max(once, 5.0 * walk.tiles)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=5))
def test_overlapping_times_take_the_longest_and_little_more(times: list[float]) -> None:
    assert max(times) * 0.999 <= larger(*times) <= 1.3 * max(times)


PINNED: tuple[dict[str, str], ...] = (
    {},
    {"exchange": "on"},
    {"mainloop": "cooperative"},
    {"mainloop": "warpspecialized"},
    {"mainloop": "cooperative", "epilogue": "128x32"},
    {"tile": "128x128x64"},
)


def fresh() -> GemmTarget:
    """A target that has chosen nothing yet."""
    TMA._costs = {}
    return gemm_target.__wrapped__("sm_90a")


@pytest.mark.parametrize("form", [DENSE, Narrow(8, 128)])
def test_a_choice_does_not_depend_on_earlier_ones(form: Form) -> None:
    problem = Problem("bf16", b=Operand(form=form), epilogue=Epilogue(2))
    chosen = [fresh().default_schedule(problem, pinned_fields(parse_settings(fixed))) for fixed in PINNED]
    seconds = [fresh().estimate(problem, schedule).seconds for schedule in chosen]
    for forth in (True, False):
        target, order = fresh(), list(range(len(PINNED)))[:: 1 if forth else -1]
        for i in order:
            assert target.default_schedule(problem, pinned_fields(parse_settings(PINNED[i]))) == chosen[i]
            assert target.estimate(problem, chosen[i]).seconds == seconds[i]


def test_pinning_what_is_chosen_anyway_changes_no_choice() -> None:
    problem = Problem("bf16", b=Operand(form=Narrow(8, 128)), epilogue=Epilogue(2))
    assert (plain := SM90.default_schedule(problem)).exchanged
    assert SM90.default_schedule(problem, {"exchanged": True}) == plain
