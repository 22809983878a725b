"""Tools of the profile for kernels bound by memory: what each says, and from which value on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from profilelib import NARROW, OLD, PRODUCT, WIDE, only, percents, seen, shares_of_time, stage, stalls

from mucc.agent.core.analysis import Severity
from mucc.agent.profile.tools import (
    coalescing,
    dram,
    l2,
    occupancy,
)
from mucc.agent.profile.tools.fusion import Fusion
from mucc.agent.profile.tools.stalls import shares


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
