"""Tools of the profile: what they declare, those for all kernels, and all of them on what was recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profilelib import NARROW, OLD, PRODUCT, WIDE, kernel, only, percents, seen, shares_of_time, stage, stalls

from mucc.agent.core.analysis import Limit, Severity, levers
from mucc.agent.profile.code import Code
from mucc.agent.profile.evidence import TIME, Choice, Evidence, Extents, Kernel, Stage
from mucc.agent.profile.sources.ncu_csv import parse
from mucc.agent.profile.tools import (
    TOOLS,
    advice,
    launches,
    registers,
    tools,
    tools_for,
    warp_stalls,
)
from mucc.agent.profile.tools.barriers import SHARE as BARRIER_SHARE
from mucc.agent.profile.tools.barriers import Barriers
from mucc.agent.profile.tools.stalls import REASONS, shares
from mucc.build.toolchain.machine_code import Function, Resources, parse_sass


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
