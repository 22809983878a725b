"""Tools of the profile for products and convolutions: what each says, and from which value on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from profilelib import OLD, PRODUCT, estimated, kernel, only, percents, seen, shares_of_time, stage, stalls

from mucc.agent.core.analysis import Limit, Severity
from mucc.agent.profile.evidence import Extents
from mucc.agent.profile.tools import (
    code_size,
    epilogue,
    pipeline,
    split,
    tail_waves,
    tensor_cores,
    tile_fit,
)
from mucc.agent.profile.tools.serialised import Serialised
from mucc.agent.profile.tools.stalls import shares


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
