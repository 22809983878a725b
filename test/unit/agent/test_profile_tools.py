"""Each tool of the profile: what makes it speak, what does not, and where exactly its threshold lies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mucc.agent.core.analysis import Advice, Limit, Severity, levers
from mucc.agent.profile.code import Code
from mucc.agent.profile.evidence import TIME, Choice, Evidence, Extents, Kernel, Stage
from mucc.agent.profile.sources.ncu_csv import parse
from mucc.agent.profile.tools import (
    TOOLS,
    advice,
    coalescing,
    code_size,
    dram,
    epilogue,
    l2,
    launches,
    occupancy,
    pipeline,
    registers,
    split,
    tail_waves,
    tensor_cores,
    tile_fit,
    tools,
    tools_for,
    warp_stalls,
)
from mucc.agent.profile.tools.barriers import SHARE as BARRIER_SHARE
from mucc.agent.profile.tools.barriers import Barriers
from mucc.agent.profile.tools.fusion import Fusion
from mucc.agent.profile.tools.serialised import Serialised
from mucc.agent.profile.tools.stalls import REASONS, shares
from mucc.build.toolchain.machine_code import Function, Resources, parse_sass

PRODUCT = Choice(
    "bf16", (128, 128, 64), (1, 1), "cooperative", 6, "persistent", extents=Extents(4096, 4096, 4096, 1)
)
OLD = replace(PRODUCT, mainloop="multistage")


def stage(choice: Choice | None = PRODUCT, **more: Any) -> Stage:
    return Stage("k.out", "gemm" if choice else "map", choice, **more)


def seen(*stages: Stage, limit: Limit = Limit.MIXED, **more: Any) -> Evidence:
    return Evidence(limit, stages, **more)


def only(tool: Any, evidence: Evidence) -> Advice | None:
    """The one finding of a tool; None where it has none."""
    found = list(tool.check(evidence))
    assert len(found) <= 1, found
    return found[0] if found else None


def estimated(choice: Choice = PRODUCT, **estimate: Any) -> Choice:
    return replace(choice, estimate=estimate)


def stalls(**parts: float) -> dict[str, float]:
    """Counters in which these reasons have these parts, and `wait` the rest."""
    rest = max(0.0, 1 - sum(parts.values()))
    return {REASONS[name]: value * 7 for name, value in {**parts, "wait": rest}.items()}


def kernel(name: str, *instructions: str, registers: int = 32, stack: int = 0) -> Kernel:
    return Kernel(name, Resources(name, registers, stack, 0, 256), Code.of(instructions))


percents = st.floats(0, 100)
shares_of_time = st.floats(0.01, 0.99)


def test_every_tool_declares_what_it_is_for():
    found = list(tools())
    assert len({t.name for t in found}) == len(found) == len(TOOLS)
    for tool in found:
        assert tool.looks_at and tool.limits and tool.sources
        assert set(tool.sources) <= {"ncu", "sass", "ptxas", "schedule"}
        assert ("ncu" in tool.sources) == bool(tool.metrics)
    for limit in Limit:
        assert tools_for(limit)
    assert {t.name for t in tools_for(Limit.MIXED)} == {t.name for t in found}


def test_the_docs_list_every_tool():
    text = (Path(__file__).parents[3] / "docs/agent/profile.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| (?:all|compute|memory)", text, re.MULTILINE) == [
        t.name for t in tools()
    ]


def test_no_tool_says_anything_where_nothing_was_read():
    for limit in Limit:
        assert advice(seen(stage(replace(PRODUCT, extents=None)), stage(None), limit=limit)) == []
        assert advice(seen(limit=limit)) == []


def test_the_gravest_comes_first_and_then_the_longest_stage():
    spilling = kernel("a", "STL [R1], R2")
    slow = Stage("k.slow", "map", None, [spilling], share=0.7)
    quick = Stage("k.quick", "map", None, [spilling], share=0.3)
    small = Stage("k.small", "map", None, [spilling], share=0.05)
    few = Stage("k.few", "gemm", replace(PRODUCT, stages=2), share=0.2)
    found = advice(seen(quick, slow, few, small))
    assert [a.stage for a in found] == ["k.few", "k.slow", "k.quick"]
    assert [a.severity for a in found] == [Severity.CRITICAL, Severity.WARNING, Severity.WARNING]


# ---- contractions ---------------------------------------------------------------------------------------


@given(percents)
def test_idle_tensor_cores(busy: float):
    counters = {tensor_cores.BUSY: busy}
    found = only(tensor_cores.TensorCores(), seen(stage(estimated(limit="L2"), counters=counters)))
    assert (found is not None) == (busy < tensor_cores.GOOD)
    if found:
        assert found.levers[0] == "cluster" and "bound by L2" in found.cause
        assert (found.severity is Severity.INFO) == (busy >= tensor_cores.LOW)
        assert (found.severity is Severity.CRITICAL) == (busy < tensor_cores.VERY_LOW)


def test_products_by_the_wrong_instructions():
    tool = tensor_cores.TensorCores()
    modern = kernel("m", "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0")
    older = kernel("o", "HMMA.16816.F32.BF16 R4, R8, R12, R4", "FFMA R1, R2, R3, R4")
    none = kernel("n", "FFMA R1, R2, R3, R4")
    assert only(tool, seen(stage(kernels=[modern]))) is None
    found = only(tool, seen(stage(OLD, kernels=[older])))
    assert found and found.severity is Severity.WARNING and found.levers[0] == "mainloop"
    found = only(tool, seen(stage(replace(OLD, compute="f32"), kernels=[none])))
    assert found and found.severity is Severity.CRITICAL and found.levers[0] == "precision"
    assert only(tool, seen(stage(replace(OLD, mainloop="skinny"), kernels=[none]))) is None


def test_products_that_ptxas_serialised():
    said = [("MU5201", "spills"), ("MU5202", "ptxas undid an optimisation (C7510): wgmma serialized")]
    found = only(Serialised(), seen(stage(), warnings=said))
    assert found and found.severity is Severity.CRITICAL and found.stage == "k.out" and "C7510" in found.cause
    assert only(Serialised(), seen(stage(), warnings=said[:1])) is None


@given(st.integers(1, 12), st.integers(1, 64))
def test_pipelines_that_load_nothing_ahead(stages: int, steps: int):
    choice = replace(PRODUCT, stages=stages, extents=Extents(512, 512, 64 * steps, 1))
    found = {a.severity for a in pipeline.Pipeline().check(seen(stage(choice)))}
    assert (Severity.CRITICAL in found) == (stages <= pipeline.HELD and steps > stages)
    assert (Severity.INFO in found) == (steps < stages)


@given(shares_of_time)
def test_code_that_is_too_long(part: float):
    counters = stalls(no_instruction=part)
    found = only(code_size.CodeSize(), seen(stage(counters=counters, kernels=[kernel("a", *["NOP"] * 640)])))
    assert (found is not None) == (shares(counters)["no_instruction"] > code_size.SHARE)
    assert found is None or "10 KB" in found.cause


def test_pipelines_that_the_model_says_wait():
    found = only(pipeline.Pipeline(), seen(stage(estimated(limit="latency"))))
    assert found and found.severity is Severity.WARNING and found.levers == ["stages", "tile"]
    assert only(pipeline.Pipeline(), seen(stage(estimated(limit="math")))) is None


@given(shares_of_time, percents, percents)
def test_pipelines_that_starve(waiting: float, compute: float, memory: float):
    counters = {**stalls(long_scoreboard=waiting), pipeline.COMPUTE: compute, pipeline.MEMORY: memory}
    found = only(pipeline.Pipeline(), seen(stage(OLD, counters=counters)))
    share = shares(counters)["long_scoreboard"]
    assert (found is not None) == (share > pipeline.STARVED and max(compute, memory) < pipeline.IDLE)
    assert found is None or "mainloop" in found.levers


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_tiles_that_reach_over_the_edge(m: int, n: int):
    found = only(tile_fit.TileFit(), seen(stage(replace(PRODUCT, extents=Extents(m, n, 512, 1)))))
    work = -(-m // 128) * 128 * -(-n // 128) * 128 / (m * n)
    assert (found is not None) == (work > tile_fit.PADDED)
    if found:
        assert (found.severity is Severity.CRITICAL) == (work >= tile_fit.MOSTLY_PADDED)


def test_padding_matters_less_where_products_wait_for_memory():
    few = replace(PRODUCT, extents=Extents(16, 4096, 512, 1))
    found = only(tile_fit.TileFit(), seen(stage(few), limit=Limit.MEMORY))
    assert found and found.severity is Severity.INFO
    assert only(tile_fit.TileFit(), seen(stage(replace(few, mainloop="skinny")))) is None


def test_few_rows_want_to_be_columns():
    found = only(tile_fit.TileFit(), seen(stage(replace(PRODUCT, extents=Extents(16, 4096, 512, 1)))))
    assert found and "exchange" in found.levers and "mainloop" in found.levers
    found = only(tile_fit.TileFit(), seen(stage(replace(PRODUCT, extents=Extents(4096, 16, 512, 1)))))
    assert found and found.levers == ["tile"]


@given(shares_of_time, st.floats(0.1, 9))
def test_waves_that_leave_places_idle(idle: float, waves: float):
    found = only(tail_waves.TailWaves(), seen(stage(estimated(waves=waves, tail=idle, blocks=132))))
    assert (found is not None) == (idle >= tail_waves.IDLE)
    if found:
        assert (found.severity is Severity.CRITICAL) == (idle >= tail_waves.MOSTLY_IDLE)
        assert found.levers[0] == "tile" and "stream_k" in found.levers
        assert ("split_k" in found.levers) == (waves < 1) and "cluster" not in found.levers


def test_what_is_tried_already_is_not_advised():
    choice = estimated(
        replace(PRODUCT, cluster=(2, 1), scheduler="stream_k"), waves=1.1, tail=0.4, blocks=132
    )
    found = only(tail_waves.TailWaves(), seen(stage(choice)))
    assert found and found.levers == ["tile", "cluster"]


def test_maps_that_fill_a_part_of_the_card():
    tool = tail_waves.TailWaves()
    found = only(tool, seen(stage(None, counters={tail_waves.WAVES: 0.1})))
    assert found and found.severity is Severity.INFO and found.levers == ["fusion"]
    assert only(tool, seen(stage(None, counters={tail_waves.WAVES: 3.1}))) is None


@given(shares_of_time)
def test_adding_up_the_pieces_of_k(share: float):
    divided = replace(PRODUCT, scheduler="split_k", splits=16)
    choice = estimated(divided, parts={"reduction": share, "math": 1 - share})
    found = only(split.Split(), seen(stage(choice)))
    assert (found is not None) == (choice.part("reduction") >= split.SHARE)
    assert found is None or (found.severity is Severity.CRITICAL) == (choice.part("reduction") >= split.MOST)
    assert only(split.Split(), seen(stage(replace(choice, scheduler="persistent")))) is None


@given(shares_of_time, st.sampled_from(["cooperative", "pingpong"]))
def test_epilogues_that_nothing_hides(share: float, mainloop: str):
    choice = estimated(replace(PRODUCT, mainloop=mainloop), parts={"epilogue": share, "math": 1 - share})
    found = only(epilogue.Epilogue(), seen(stage(choice)))
    assert (found is not None) == (choice.part("epilogue") >= epilogue.SHARE)
    assert found is None or ("mainloop" in found.levers) == (mainloop == "cooperative")


# ---- memory ---------------------------------------------------------------------------------------------


@given(percents)
def test_device_memory_that_is_saturated(busy: float):
    found = only(dram.Dram(), seen(stage(None, counters={dram.BUSY: busy})))
    assert (found is not None) == (busy > dram.SATURATED)
    assert found is None or found.severity is Severity.INFO


@given(st.floats(0.5, 4), st.booleans())
def test_operands_that_come_again(times: float, product: bool):
    counters = {l2.BYTES: times * 1e6, l2.HITS: 40.0, l2.BUSY: l2.BUSY_ENOUGH}
    found = only(l2.L2(), seen(stage(PRODUCT if product else None, counters=counters, bytes=1_000_000)))
    assert (found is not None) == (times * 1e6 > l2.AGAIN * 1_000_000)
    assert found is None or (found.levers[0] == "swizzle") == product
    assert only(l2.L2(), seen(stage(counters=counters))) is None
    idle = {**counters, l2.BUSY: l2.BUSY_ENOUGH - 1}
    assert only(l2.L2(), seen(stage(counters=idle, bytes=1_000_000))) is None


def report(stages: int, staged: int, fused: int) -> dict[str, Any]:
    kinds = ["contraction", *["reduction"] * (stages - 1)]
    listed = [{"name": f"s{i}", "kind": kind, "bytes": staged // stages} for i, kind in enumerate(kinds)]
    limits = {"dram": {"amount": fused, "us": 1.0}}
    return {"kernel": "k", "stages": listed, "staged_bytes": staged, "limits": limits}


@given(st.integers(1, 5), st.integers(0, 500))
def test_bytes_between_stages(stages: int, staged: int):
    found = only(Fusion(), seen(stage(), sol=[report(stages, staged, 100)]))
    assert (found is not None) == (stages > 1 and staged > 130)
    if found:
        assert found.levers[0] == "fusion" and found.stage == "k.s1"
        assert (found.severity is Severity.WARNING) == (staged >= 200)


WIDE = kernel("mu_k_out_map_vector", "LDG.E.128 R4, desc[UR4][R2.64]", "STG.E.128 desc[UR4][R2.64], R4")
NARROW = kernel("mu_k_out_map", "LDG.E.U16 R4, desc[UR4][R2.64]", "STG.E.U16 desc[UR4][R2.64], R4")


def accesses(used_of_loads: float, used_of_stores: float, hits: float, waiting: float) -> dict[str, float]:
    """Counters of as many sectors loaded as stored, of which so many bytes are used."""
    (loads, stores), (load, store) = coalescing.SECTORS.values(), coalescing.USED.values()
    counted = {loads: 1e6, stores: 1e6, load: used_of_loads, store: used_of_stores, coalescing.HITS: hits}
    return {**counted, **stalls(lg_throttle=waiting / 2, long_scoreboard=waiting / 2)}


@given(st.floats(1, 32), st.floats(1, 32), percents, shares_of_time)
def test_sectors_that_are_not_used(loads: float, stores: float, hits: float, waiting: float):
    counters = accesses(loads, stores, hits, waiting)
    found = only(coalescing.Coalescing(), seen(stage(None, counters=counters)))
    excess, parts = 64 / (loads + stores), shares(counters)
    stalled = parts["lg_throttle"] + parts["long_scoreboard"]
    assume(abs(excess - coalescing.EXCESS) > 1e-9 and abs(stalled - coalescing.WAITS) > 1e-9)
    costs = hits < coalescing.FEW_HITS or stalled > coalescing.WAITS
    assert (found is not None) == (excess > coalescing.EXCESS and costs)
    if found:
        assert found.levers[0] == "layout" and (found.severity is Severity.CRITICAL) == (
            excess >= coalescing.MUCH
        )
    assert only(coalescing.Coalescing(), seen(stage(PRODUCT, counters=counters))) is None


def test_copies_past_registers_are_not_judged():
    counters = accesses(0.0, 32.0, 0.0, 0.9)
    assert only(coalescing.Coalescing(), seen(stage(OLD, counters=counters))) is None


def test_maps_that_could_not_use_whole_vectors():
    tool = coalescing.Coalescing()
    found = only(tool, seen(stage(None, kernels=[WIDE, NARROW], ran=["mu_k_out_map"])))
    assert found and found.levers == ["layout"] and "single elements" in found.cause
    assert only(tool, seen(stage(None, kernels=[WIDE, NARROW], ran=["mu_k_out_map_vector"]))) is None
    assert only(tool, seen(stage(None, kernels=[NARROW], ran=["mu_k_out_map"]))) is None


@given(percents)
def test_too_few_warps(active: float):
    limits = dict(zip(occupancy.LIMITS.values(), (2.0, 8.0, 8.0, 32.0), strict=True))
    roomy = dict(zip(occupancy.LIMITS.values(), (6.0, 8.0, 8.0, 32.0), strict=True))
    counters = {occupancy.ACTIVE: active, occupancy.WAVES: 4.0, **limits}
    found = only(occupancy.Occupancy(), seen(stage(None, counters=counters)))
    assert (found is not None) == (active < occupancy.LOW)
    if found:
        assert "limited by registers" in found.cause and found.levers == ["fusion"]
        assert (found.severity is Severity.CRITICAL) == (active < occupancy.VERY_LOW)
    assert only(occupancy.Occupancy(), seen(stage(PRODUCT, counters=counters))) is None
    found = only(
        occupancy.Occupancy(), seen(stage(None, counters={**counters, **roomy, occupancy.WAVES: 0.3}))
    )
    assert found is None or ("the number of blocks" in found.cause and found.severity is Severity.WARNING)


def test_stages_that_leave_no_room_for_a_second_block():
    tool = occupancy.Occupancy()
    registers_for, shared = occupancy.LIMITS["registers"], occupancy.LIMITS["shared memory"]
    choice = replace(PRODUCT, mainloop="warpspecialized", stages=13)
    found = only(tool, seen(stage(choice, counters={registers_for: 5, shared: 1})))
    assert found and found.levers[0] == "stages" and "13 stages" in found.cause
    assert only(tool, seen(stage(choice, counters={registers_for: 5, shared: 2}))) is None
    assert only(tool, seen(stage(choice, counters={registers_for: 1, shared: 1}))) is None
    assert only(tool, seen(stage(PRODUCT, counters={registers_for: 5, shared: 1}))) is None


# ---- all ------------------------------------------------------------------------------------------------


@given(st.integers(0, 150), st.integers(0, 150))
def test_spilled_registers(loads: int, stores: int):
    code = ["LDL R1, [R2]"] * loads + ["@!P0 STL.64 [R1+0x8], R2"] * stores
    found = only(registers.Registers(), seen(stage(kernels=[kernel("a", "NOP", *code, registers=168)])))
    assert (found is not None) == (loads + stores > 0)
    assert found is None or (found.severity is Severity.CRITICAL) == (loads + stores >= registers.HEAVY)


def test_a_stack_frame_alone_tells_of_spills_where_no_code_was_read():
    there = Resources("a", 168, 48, 0, 384)
    found = only(registers.Registers(), seen(stage(kernels=[Kernel("a", there)])))
    assert found and "48 bytes" in found.cause
    assert only(registers.Registers(), seen(stage(kernels=[Kernel("a", there, Code.of(["NOP"]))]))) is None


@given(st.integers(1, 255))
def test_many_registers(count: int):
    kernels = [kernel("a", "NOP", registers=count)]
    found = only(registers.Registers(), seen(stage(None, kernels=kernels)))
    assert (found is not None) == (count > registers.MANY)
    assert only(registers.Registers(), seen(stage(PRODUCT, kernels=kernels))) is None


@given(shares_of_time, st.sampled_from(["long_scoreboard", "lg_throttle", "tex_throttle", "selected"]))
def test_a_reason_to_wait_that_prevails(part: float, reason: str):
    counters = stalls(**{reason: part})
    found = only(warp_stalls.WarpStalls(), seen(stage(None, counters=counters)))
    share = shares(counters)[reason]
    assert (found is not None) == (share > warp_stalls.MUCH and reason != "selected")
    if found:
        assert (found.severity is Severity.CRITICAL) == (share > warp_stalls.MOST)
    found = only(warp_stalls.WarpStalls(), seen(stage(PRODUCT, counters=counters)))
    assert (found is not None) == (share > warp_stalls.MUCH and reason == "lg_throttle")


@given(percents)
def test_loads_take_long_where_device_memory_is_busy(busy: float):
    counters = {**stalls(long_scoreboard=0.9), warp_stalls.MEMORY: busy}
    found = only(warp_stalls.WarpStalls(), seen(stage(None, counters=counters)))
    assert (found is not None) == (busy < warp_stalls.BUSY)
    assert found is None or (found.severity is Severity.CRITICAL) == (busy < warp_stalls.HALF_BUSY)


@given(shares_of_time)
def test_waiting_at_barriers(part: float):
    counters = stalls(barrier=part)
    found = only(Barriers(), seen(stage(None, counters=counters, kernels=[kernel("a", "BAR.SYNC 0x0")])))
    assert (found is not None) == (shares(counters)["barrier"] > BARRIER_SHARE)
    assert found is None or found.evidence["barriers"] == 1
    assert only(Barriers(), seen(stage(PRODUCT, counters=counters))) is None
    old = only(Barriers(), seen(stage(OLD, counters=counters)))
    assert (old is not None) == (found is not None) and (old is None or old.levers[0] == "mainloop")


@given(st.floats(1, 200), st.integers(1, 12), st.booleans())
def test_time_that_goes_to_launching(us: float, count: int, dependent: bool):
    choice = replace(PRODUCT, pdl=dependent)
    stages = [stage(choice, ran=["a"], counters={TIME: 1000.0}) for _ in range(count)]
    found = only(launches.Launches(), seen(*stages, measured_us=us, launch_us=2.5))
    assert (found is not None) == (count * 2.5 / us > launches.SHARE and (count > 1 or not dependent))
    if found:
        assert ("fusion" in found.levers) == (count > 1) and ("pdl" in found.levers) == (not dependent)
    assert only(launches.Launches(), seen(*stages)) is None


# ---- all of them ----------------------------------------------------------------------------------------

RECORDED = Path(__file__).parents[2] / "data/profile/h200.csv"


def recorded() -> dict[str, Stage]:
    """What ncu counted on an H200, by program: test/data/profile/README.md says of which programs."""
    loops = {"tiny": ("warpspecialized", 13), "stages2": ("cooperative", 2), "odd": ("multistage", 2)}
    products = ("good", "tf32", "stages2", "huge", "tiny", "tail", "splits", "odd", "small")
    found: dict[str, Stage] = {}
    for launch in parse(RECORDED.read_text()):
        name = launch.kernel.removeprefix("mu_").partition("_")[0]
        mainloop, stages = loops.get(name, ("cooperative", 6))
        choice = replace(PRODUCT, mainloop=mainloop, stages=stages) if name in products else None
        found[name] = Stage("k.out", "gemm", choice, (), launch.counters, [launch.kernel])
    return found


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("good", set[str]()),
        ("tf32", set[str]()),
        ("stages2", {"pipeline", "tensor_cores"}),
        ("huge", {"pipeline", "tensor_cores", "code_size"}),
        ("tiny", {"tensor_cores", "occupancy"}),
        ("tail", {"tensor_cores"}),
        ("odd", {"tensor_cores", "coalescing", "occupancy"}),
        ("map", {"dram"}),
        ("strided", {"coalescing"}),
        ("narrow", {"coalescing", "warp_stalls"}),
        ("picked", {"coalescing", "warp_stalls", "occupancy", "tail_waves"}),
        ("columns", {"occupancy"}),
        ("softmax", set[str]()),
    ],
)
def test_what_was_counted_on_an_h200_is_told_apart(program: str, expected: set[str]):
    found = {a.tool: a for a in advice(seen(recorded()[program]))}
    assert found.keys() == expected
    if program == "stages2":
        assert found["pipeline"].severity is found["tensor_cores"].severity is Severity.CRITICAL
    if program in ("strided", "picked", "narrow"):
        assert found["coalescing"].severity is Severity.CRITICAL


METRICS = sorted({metric for tool in tools() for metric in tool.metrics})


@st.composite
def anything(draw: st.DrawFn) -> Evidence:
    """Evidence of any kind, complete or not."""
    numbers = st.floats(0, 1e12)
    counters: Mapping[str, float] = draw(st.dictionaries(st.sampled_from(METRICS), numbers))
    extents = draw(st.none() | st.builds(Extents, *[st.integers(1, 9000)] * 4))
    estimate = draw(
        st.just({})
        | st.fixed_dictionaries(
            {
                "waves": st.floats(0.01, 99),
                "tail": st.floats(0, 1),
                "blocks": st.integers(1, 132),
                "limit": st.sampled_from(["math", "L2", "DRAM", "latency", "shared memory"]),
                "parts": st.dictionaries(st.sampled_from(["math", "epilogue", "reduction"]), st.floats(0, 1)),
            }
        )
    )
    choice = draw(
        st.none()
        | st.builds(
            Choice,
            st.sampled_from(["bf16", "f32"]),
            st.just((128, 64, 64)),
            st.just((2, 1)),
            st.sampled_from(["cooperative", "pingpong", "multistage", "skinny"]),
            st.integers(1, 12),
            st.sampled_from(["persistent", "split_k", "stream_k"]),
            extents=st.just(extents),
            estimate=st.just(estimate),
        )
    )
    kernels: Sequence[Kernel] = draw(st.sampled_from([[], [WIDE], [WIDE, NARROW], [Kernel("bare")]]))
    ran = draw(st.lists(st.sampled_from([k.name for k in kernels] or ["other"]), unique=True))
    found = Stage(
        "k.out", "gemm", choice, kernels, counters, ran, bytes=draw(st.none() | st.integers(1, 10**9))
    )
    return seen(
        found,
        limit=draw(st.sampled_from(Limit)),
        measured_us=draw(st.none() | st.floats(0.1, 1e6)),
        launch_us=2.5,
    )


@given(anything())
def test_advice_always_names_levers_and_what_is_behind_it(evidence: Evidence):
    for found in advice(evidence):
        assert found.cause and found.advice and found.evidence
        assert found.levers and set(found.levers) <= set(levers())
        assert len(set(found.levers)) == len(found.levers)
        assert found.stage in ("", "k.out")


def test_machine_code_of_an_h200_is_read():
    codes = {f.name: Code.of(f.instructions) for name in ("map", "huge") for f in listing(name)}
    vector, single = codes["mu_twins_a_map_vector"], codes["mu_twins_a_map"]
    assert vector.loads == vector.stores == {16: 1} and single.loads == single.stores == {4: 1}
    assert vector.spills == vector.wgmma == vector.mma == 0 and vector.count("MUFU") == 4
    assert codes["mu_huge_out"].spills > 2 and codes["mu_huge_out"].wgmma > 2


def listing(name: str) -> list[Function]:
    return parse_sass((RECORDED.parent / f"{name}.sass").read_text())


def test_instructions_are_counted_by_name_and_width():
    code = Code.of(
        [
            "@!P0 LDG.E.U16.CONSTANT R4, desc[UR4][R2.64]",
            "LDG.E.64 R4, desc[UR4][R2.64]",
            "@UP1 STG.E desc[UR4][R2.64], R4",
            "LDGSTS.E.BYPASS.LTC128B.128 [R3], desc[UR4][R2.64]",
            "HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0",
            "WARPGROUP.ARRIVE",
            "",
        ]
    )
    assert code.loads == {2: 1, 8: 1, 16: 1} and code.stores == {4: 1}
    assert code.wgmma == 1 and code.mma == 0 and code.instructions == 6 and code.spills == 0


@pytest.mark.parametrize("name", ["barrier", "long_scoreboard"])
def test_shares_of_reasons_add_up(name: str):
    found = shares({REASONS[name]: 3.0, REASONS["wait"]: 1.0})
    assert found == {name: 0.75, "wait": 0.25}
    assert shares({}) == {} and shares({REASONS[name]: 0.0}) == {}
