"""Schedules of attention: kernels built for other settings run on the host; rules, explanation, ranking."""

from __future__ import annotations

import json

import pytest
from on_host import Program, run

from mucc.agent.propose.offline.features import shape_of
from mucc.agent.propose.offline.ideas import pool
from mucc.compiler.driver import Compilation, Options, compile_text
from mucc.compiler.explain_schedule import explain
from mucc.diagnostics.core import DiagnosticError, Source
from mucc.dialects.mu.settings import parse_settings
from mucc.kernels.attention.cost import few_parts
from mucc.kernels.attention.schedule import Problem, complete, is_legal, neighbours, proposals
from mucc.measure.tune.analysis import analyse
from mucc.measure.tune.plans import Program as TunedProgram
from mucc.measure.tune.ranking import survey
from mucc.target import get_target

FULL = """
kernel {name}[B, S, T](q: f16[B, S, {width}], k: f16[B, T, {width}], v: f16[B, T, 48]) -> f16[B, S, 48] {{
    return attention(q, k, v, causal={causal})
}}
"""
FEW = """
kernel {name}[B, G, T](q: f16[B, G, 1, 40], k: f16[B, 1, T, 40], v: f16[B, 1, T, 24]) -> f16[B, G, 1, 24] {{
    return attention(q, k, v)
}}
"""
DOCUMENTS = """
kernel {name}[B, S](q: f16[B, S, 32], k: f16[B, S, 32], v: f16[B, S, 32], d: s32[B, S]) -> f16[B, S, 32] {{
    return attention(q, k, v, mask=d[:, :, None] == d[:, None, :])
}}
"""
PAIR = """
kernel f[M](q: bf16[M, 128], k: bf16[M, 128], v: bf16[M, 128], w: bf16[256, 128]) -> bf16[M, 256] {
    stage y = attention(q, k, v)
    return y @ w.T
}
"""


def _scheduled(kernel: str, **settings: str) -> str:
    lines = "".join(f"    {name} = {value}\n" for name, value in settings.items())
    name = kernel.split("[")[0].split()[-1]
    return f"{kernel}\nschedule {name} for TARGET {{\n{lines}}}\n"


HOPPER = {
    "turns": _scheduled(FULL.format(name="turns", width=32, causal="on"), tile="192x48x32", stages="2"),
    "alone": _scheduled(FULL.format(name="alone", width=64, causal="off"), tile="64x96x64", stages="5"),
    "abreast": _scheduled(
        FULL.format(name="abreast", width=72, causal="on"), tile="128x208x80", mainloop="cooperative"
    ),
    "labels": _scheduled(DOCUMENTS.format(name="labels"), tile="64x32x32"),
    "sync": _scheduled(DOCUMENTS.format(name="sync"), mainloop="multistage", tile="128x16x32"),
    "parts": _scheduled(FEW.format(name="parts"), tile="16x32x48", stages="2", scheduler="split_k(7)"),
    "both": _scheduled(FULL.format(name="both", width=32, causal="on"), scheduler="split_k(3)"),
}
AMPERE = {
    name: _scheduled(FULL.format(name=name, width=32, causal=causal), tile=tile)
    for name, causal, tile in (("small", "on", "64x16x32"), ("large", "off", "128x112x32"))
} | {"parts": HOPPER["parts"]}
LENGTHS = {"one": (1, 1), "few": (9, 300), "many": (140, 270)}


def _compiled(kernels: dict[str, str], target: str) -> Compilation:
    text = "\n".join(kernels.values()).replace("TARGET", target)
    return compile_text(Source("k.mcu", text), Options(target=target))


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(_compiled(HOPPER, "sm_90a"), tmp_path_factory.mktemp("hopper"))


@pytest.fixture(scope="module")
def ampere(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program.of(_compiled(AMPERE, "sm_80"), tmp_path_factory.mktemp("ampere"))


def _run(program: Program, name: str, lengths: tuple[int, int], processors: int) -> None:
    info = next(k for k in program.kernels if k.name == name)
    program.library.on_host_sm_count(processors)
    sizes = {"B": 2, "G": 3, "S": lengths[0], "T": lengths[1]}
    floats = (-2.0, -0.75, 0.0, 0.5, 1.0, 3.0)
    run(program, info, {d: sizes[d] for d in info.dims}, seed=3, floats=floats, within=2**-9, align=16)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", HOPPER)
def test_kernels_of_hopper_agree_with_the_interpreter(hopper: Program, name: str, lengths: str) -> None:
    _run(hopper, name, LENGTHS[lengths], processors=2)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", AMPERE)
def test_kernels_of_ampere_agree_with_the_interpreter(ampere: Program, name: str, lengths: str) -> None:
    _run(ampere, name, LENGTHS[lengths], processors=13)


@pytest.mark.parametrize("width", [64, 128, 192, 256])
def test_kernels_are_built_for_what_a_schedule_sets(width: int) -> None:
    kernel = FULL.format(name="f", width=width, causal="on")
    tile = f"64x48x{width}"
    text = _scheduled(kernel, tile=tile, stages="2").replace("TARGET", "sm_90a")
    compilation = compile_text(Source("k.mcu", text), Options(target="sm_90a"))
    code = compilation.emit("cu")
    assert "kGroups = 1, kStages = 2;" in code and "kTileRows = 64, kTileColumns = 48;" in code
    assert f"tile      = {tile}" in compilation.emit("schedule")
    entry = json.loads(compilation.emit("manifest"))["kernels"][0]["stages"][0]
    assert (entry["tile"], entry["stages"]) == (tile, 2) and "mainloop" not in entry


def test_nothing_is_told_of_the_default() -> None:
    text = FULL.format(name="f", width=64, causal="on")
    compilation = compile_text(Source("k.mcu", text), Options(target="sm_90a"))
    assert compilation.emit("schedule") == ""
    assert json.loads(compilation.emit("manifest"))["kernels"][0]["stages"] == [
        {"name": "out", "kind": "attention"}
    ]
    (told,) = explain(compilation)
    assert told.as_json()["schedule"] == {"tile": "192x128x64", "mainloop": "pingpong", "stages": "4"}
    assert len(told.others) == 5


REFUSED = [
    ("cluster = 2x1", "MU3085", "attention has no setting 'cluster'"),
    ("tile = 96x64x64", "MU3086", "one of 128, 192"),
    ("tile = 128x64x32", "MU3086", "tile K of this attention is 64"),
    ("tile = 128x72x64", "MU3086", "a multiple of 16"),
    ("tile = 192x176x64", "MU3086", "too many registers"),
    ("mainloop = skinny", "MU3087", "no skinny mainloop"),
    ("stages = 1", "MU3017", "two stages at least"),
    ("stages = 9", "MU3004", "at most 6 stages"),
    ("scheduler = split_k(65)", "MU3088", "64 parts at most"),
    ("scheduler = stream_k()", "MU3088", "no stream_k"),
    ("scheduler = persistent(swizzle=2)", "MU3088", "order of attention's tiles is fixed"),
]


@pytest.mark.parametrize(("setting", "code", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_no_kernel_has_is_refused(setting: str, code: str, message: str) -> None:
    kernel = FULL.format(name="f", width=64, causal="off").replace("48", "64")
    text = f"{kernel}schedule f for sm_90a {{\n    {setting}\n}}\n"
    with pytest.raises(DiagnosticError) as error:
        compile_text(Source("k.mcu", text), Options(target="sm_90a"))
    (found,) = error.value.diagnostics
    assert found.code == code and message in found.message
    for fix in found.fixes:
        name = setting.partition(" = ")[0]
        mended = text.replace(setting, f"{name} = {fix.replacement}")
        compile_text(Source("k.mcu", mended), Options(target="sm_90a"))


def test_a_schedule_of_the_program_is_the_products_where_there_are_some() -> None:
    schedule = "schedule f for sm_90a {\n    tile = 128x256x64\n    cluster = 2x1\n}\n"
    kinds = _stages(PAIR + schedule)
    assert kinds["gemm"]["tile"] == "128x256x64" and "tile" not in kinds["attention"]
    kinds = _stages(PAIR + schedule + "schedule f.y for sm_90a {\n    tile = 64x64x128\n}\n")
    assert kinds["gemm"]["tile"] == "128x256x64" and kinds["attention"]["tile"] == "64x64x128"


def test_all_kernels_are_reproducible_with_the_program() -> None:
    kinds = _stages(PAIR + "schedule f for sm_90a {\n    reproducible = on\n}\n")
    assert kinds["gemm"]["reproducible"] and kinds["attention"]["reproducible"]


def _stages(text: str) -> dict[str, dict[str, object]]:
    compilation = compile_text(Source("k.mcu", text), Options(target="sm_90a"))
    return {s["kind"]: s for s in json.loads(compilation.emit("manifest"))["kernels"][0]["stages"]}


def test_what_is_ranked_can_be_compiled() -> None:
    source = FULL.format(name="f", width=64, causal="on")
    (found,) = survey(Source("k.mcu", source), dims={"B": 32, "S": 2048, "T": 2048})
    (attention,) = found.contractions
    moves = [*attention.ranked()[:3], *attention.neighbours(attention.chosen.settings)[:2]]
    assert len(moves) == 5 and all(m.us > 0 for m in moves)
    for move in moves:
        text = source + found.schedules({attention.stage: move.settings})
        compilation = compile_text(Source("k.mcu", text), Options(target="sm_90a"))
        told = explain(compilation)[0].as_json()["schedule"]
        assert told == dict(move.settings)


def test_tuning_and_the_agent_find_attention() -> None:
    source, sizes = (
        Source("k.mcu", FULL.format(name="f", width=64, causal="on")),
        {"B": 2, "S": 64, "T": 4096},
    )
    (analysis,) = analyse(TunedProgram(source, (sizes,)), "sm_90a", keep_pins=False)
    assert analysis.stages == ("out",)
    (workload,) = analysis.workloads["out"]
    assert workload.is_sized and workload.text == "attention f16 M=64 N=4096 K=64 batch=2"
    assert workload.signature != workload.form
    (found,) = survey(source, dims=sizes)
    (attention,) = found.contractions
    moves = pool(attention, attention.chosen)
    assert any("split_k" in m.settings.get("scheduler", "") for m in moves)
    assert all(shape_of(m.settings).cluster == (1, 1) for m in moves)


def _problem(**given: object) -> Problem:
    usual = {
        "compute": "bf16",
        "width": 128,
        "result_width": 128,
        "rows": 4096,
        "columns": 4096,
        "batch": 16,
        "group": 1,
        "causal": False,
        "ranged": False,
        "plain": True,
        "page": 0,
        "may_decode": False,
        "is_many": True,
        "has_warpgroups": True,
        "shared_memory": get_target("sm_90a").smem_bytes,
    }
    return Problem(**{**usual, **given})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("has_warpgroups", [False, True])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("width", [8, 64, 96, 128, 192, 256])
def test_the_default_is_legal_and_proposed_first(width: int, plain: bool, has_warpgroups: bool) -> None:
    problem = _problem(width=width, result_width=width, plain=plain, has_warpgroups=has_warpgroups)
    schedule = complete(problem, {})
    found = [*proposals(problem, {})]
    assert is_legal(problem, schedule) and found[0] == schedule
    assert len(set(found)) == len(found) > 3
    assert all(is_legal(problem, s) for s in neighbours(problem, schedule))


@pytest.mark.parametrize("width", [8, 64, 256])
def test_the_default_for_few_queries_is_legal(width: int) -> None:
    few = _problem(width=width, result_width=width, rows=1, may_decode=True, is_many=False)
    assert is_legal(few, complete(few, {}))
    assert {s.parts for s in proposals(few, {})} >= {None, 1, 8}
    assert all(s.parts == 4 for s in proposals(few, {"parts": 4}))


def test_keys_of_few_queries_are_divided_until_all_processors_have_some() -> None:
    assert few_parts(units=1, columns=1 << 17, processors=132) == 64
    assert few_parts(units=132, columns=4096, processors=132) == 1
    assert few_parts(units=1, columns=100, processors=132) == 1


def test_settings_are_parsed_as_any_schedule() -> None:
    assert [*parse_settings({"tile": "64x96x64", "scheduler": "split_k(4)"})] == ["tile", "scheduler"]
