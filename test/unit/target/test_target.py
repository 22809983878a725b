"""Targets: lookup, facts, legality, default schedules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rulelib import ACROSS, changed, check_explanation, configs, epilogues, mend, sizes

import mucc
from mucc.diagnostics import DiagnosticError
from mucc.diagnostics.codes import CODES
from mucc.dialects.mu.settings import parse_settings
from mucc.frontend.reference import card
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Grouped, Operand, Sparse
from mucc.kernels.gemm.settings import pinned_fields
from mucc.kernels.violation import Violation
from mucc.target import TARGETS, get_target, target_names, target_of

SM90 = gemm_target("sm_90a")
GOOD = GemmConfig(Problem("bf16"), Schedule((128, 256, 64), (2, 1), "cooperative"))


# Lookup and facts


def test_every_target_has_facts() -> None:
    assert target_names() == tuple(TARGETS)
    for name in target_names():
        facts = get_target(name).facts
        assert facts.name == name
        assert all(device.datasheet["dram_bandwidth"] > 0 for device in facts.devices)


@pytest.mark.parametrize(
    ("capability", "target"),
    [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((8, 9), "sm_89"), ((12, 0), "sm_120a"), ((7, 5), None)],
)
def test_targets_of_gpus(capability: tuple[int, int], target: str | None) -> None:
    assert target_of(*capability) == target


def test_the_reference_card_names_each_target_with_its_mainloops() -> None:
    text = card()
    for name in TARGETS:
        assert name in text
        assert all(m in text for family in gemm_target(name).families for m in family.mainloops)


def test_what_a_target_lacks_is_said_to_be_on_those_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    other = gemm_target("sm_100a")
    monkeypatch.setattr(type(other), "grouped_mainloops", property(lambda self: ("one_sm",)))
    grouped = Problem("bf16", b=Operand(form=Grouped()))
    (found,) = gemm_target("sm_80").grouped_violations(GemmConfig(grouped, GOOD.schedule))
    assert found.notes == ("kernels for sm_90a, sm_100a find the tiles of groups on the device",)


def test_blocks_that_share_a_multiprocessor_share_its_memory() -> None:
    """A block takes the reserved bytes besides its own; alone it has no more than the limit of one block."""
    for name in target_names():
        facts = get_target(name).facts
        assert facts.shared_memory_of_each(1) == facts.limits.shared_memory
        for blocks in (2, 3, 4):
            most = facts.shared_memory_of_each(blocks)
            assert facts.multiprocessor.blocks_with(most) == blocks
            assert facts.multiprocessor.blocks_with(most + 1024) < blocks


def test_the_default_target_is_named_in_one_place() -> None:
    """What takes a target by default imports the name; the agent, a client, and examples have their own."""
    root = Path(mucc.__file__).parent
    named = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if '= "sm_90a"' in path.read_text(encoding="utf-8")
    ]
    own = ("target/__init__.py", "agent/engine/options.py", "diagnostics/examples.py")
    assert sorted(named) == sorted(own)


@pytest.mark.parametrize("name", ["sm_90", "sm90a", "sm_90b"])
def test_unknown_target_is_a_diagnostic_with_a_suggestion(name: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        get_target(name)
    (diagnostic,) = caught.value.diagnostics
    assert str(diagnostic) == f"error[MU4001]: unknown target '{name}'"
    assert diagnostic.notes == (f"targets are {', '.join(TARGETS)}",)
    assert diagnostic.helps == ("did you mean 'sm_90a'?",)


def test_a_far_off_target_gets_the_list_only() -> None:
    with pytest.raises(DiagnosticError) as caught:
        get_target("gfx942")
    assert caught.value.diagnostics[0].helps == ()


def test_looking_a_target_up_reads_no_file_and_imports_no_diagnostics() -> None:
    code = (
        "import sys; from mucc.target import get_target; get_target('sm_90a'); "
        "sys.exit(any(m in sys.modules for m in ('tomllib', 'mucc.diagnostics', 'mucc.kernels')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Rules


def broken(stages: int | None = None, **changes: object) -> list[Violation]:
    return SM90.violations(changed(GOOD, **changes), stages)  # type: ignore[arg-type]


def test_a_good_configuration_breaks_no_rule() -> None:
    assert broken() == []
    assert broken(stages=4) == []


TF32 = {"compute": "tf32"}

SPARSE = {"a": Operand(form=Sparse())}
COPIED = {"mainloop": "cpasync", "tile": (128, 128, 64)}

BY_COLUMNS = Epilogue(destination=1, destination_is_col_major=True)
CASES: list[tuple[str, str, str | None, dict[str, object]]] = [
    ("MU3001", "tile", "128x256x64", {"tile": (64, 256, 64)}),
    ("MU3001", "tile", "128x128x64", {"tile": (96, 128, 64), "mainloop": "pingpong"}),
    ("MU3002", "tile", "128x128x64", {"tile": (128, 120, 64)}),
    ("MU3002", "tile", "128x64x32", {**TF32, "tile": (128, 48, 32)}),
    ("MU3003", "tile", "128x128x32", {"tile": (128, 128, 40)}),
    ("MU3004", "stages", "4", {"stages": 5}),
    ("MU3005", "tile", "256x128x128", {"tile": (256, 128, 256)}),
    ("MU3006", "tile", "256x192x64", {"tile": (256, 256, 64)}),
    ("MU3006", "tile", "128x192x64", {"mainloop": "pingpong"}),
    ("MU3007", "tile", "256x32x64", {"tile": (512, 32, 64)}),
    ("MU3008", "cluster", "4x2", {"cluster": (4, 4)}),
    ("MU3008", "cluster", "2x1", {"cluster": (3, 1)}),
    ("MU3009", "cluster", "2x1", {"tile": (128, 16, 64), "cluster": (4, 1)}),
    (
        "MU3010",
        "scheduler",
        "persistent",
        {"tile": (64, 128, 64), "mainloop": "pingpong", "scheduler": "stream_k"},
    ),
    ("MU3012", "scheduler", "persistent(swizzle=2)", {"swizzle": 3}),
    (
        "MU3012",
        "scheduler",
        "persistent",
        {"swizzle": 2, "mainloop": "warpspecialized", "tile": (64, 128, 64)},
    ),
    ("MU3013", "scheduler", "split_k(132)", {"scheduler": "split_k", "splits": 1000}),
    ("MU3013", "scheduler", "stream_k(splits=1)", {"scheduler": "stream_k", "splits": 0}),
    ("MU3014", "tile", "128x128x32", {**TF32, "a": ACROSS, "tile": (128, 128, 24)}),
    (
        "MU3014",
        "tile",
        "128x128x32",
        {**TF32, "a": ACROSS, "b": ACROSS, "tile": (128, 128, 64)},
    ),
    ("MU3015", "tile", "128x256x64", {"tile": (128, 240, 64), "epilogue": Epilogue(row_reductions=1)}),
    ("MU3018", "tile", "128x128x64", {"tile": (128, 96, 64), "epilogue": Epilogue(row_reductions=1)}),
    (
        "MU3018",
        "tile",
        "64x192x64",
        {"tile": (64, 160, 64), "mainloop": "pingpong", "epilogue": Epilogue(row_reductions=1)},
    ),
    ("MU3019", "tile", "128x32x64", {"tile": (128, 16, 64), "epilogue": BY_COLUMNS}),
    ("MU3019", "tile", "64x96x64", {"tile": (64, 80, 64), "mainloop": "pingpong", "epilogue": BY_COLUMNS}),
    (
        "MU3019",
        "epilogue",
        "128x32",
        {"tile": (128, 64, 64), "epilogue_tile": (128, 16), "epilogue": BY_COLUMNS},
    ),
    ("MU3016", "exchange", "on", {**TF32, "b": ACROSS, "tile": (128, 128, 32)}),
    ("MU3060", "exchange", "off", {"rights": 2, "exchanged": True, "tile": (128, 128, 64)}),
    ("MU3016", "exchange", "off", {**TF32, "b": ACROSS, "tile": (128, 128, 32), "exchanged": True}),
    ("MU3017", "stages", "2", {"stages": 1}),
    ("MU3020", "mainloop", "multistage", {"compute": "f32", "tile": (128, 128, 32)}),
    ("MU3073", "pdl", "off", {"pdl": True, "epilogue": Epilogue(scalars=1)}),
    ("MU3073", "pdl", "off", {"pdl": True, "scheduler": "split_k", "splits": 2}),
    ("MU3073", "pdl", "off", {"pdl": True, "scheduler": "stream_k"}),
    ("MU3073", "pdl", "off", {**COPIED, "pdl": True, "scheduler": "stream_k"}),
    ("MU3001", "tile", "256x96x128", {**SPARSE, "tile": (192, 96, 128), "mainloop": "pingpong"}),
    ("MU3001", "tile", "256x96x128", {**SPARSE, "tile": (192, 96, 128), "mainloop": "warpspecialized"}),
    ("MU3074", "epilogue", "128x32", {"epilogue_tile": (64, 32)}),
    ("MU3074", "epilogue", "128x32", {"epilogue_tile": (128, 40)}),
    ("MU3074", "epilogue", "auto", {"epilogue_tile": (128, 32), "rights": 2, "tile": (128, 128, 64)}),
    ("MU3074", "epilogue", "auto", {"epilogue_tile": (128, 32), "epilogue": Epilogue(ranges=3)}),
    ("MU3074", "epilogue", "auto", {"epilogue_tile": (128, 32), "epilogue": Epilogue(group=64)}),
    ("MU3061", "exchange", "off", {"exchanged": True, "epilogue": Epilogue(group=64)}),
    ("MU3061", "mainloop", "cooperative", {"mainloop": "multistage", "epilogue": Epilogue(group=64)}),
    ("MU3061", "scheduler", "persistent", {"scheduler": "stream_k", "epilogue": Epilogue(group=64)}),
    ("MU3061", "tile", "128x128x64", {"tile": (128, 96, 64), "epilogue": Epilogue(group=64)}),
    ("MU3061", "exchange", "off", {"exchanged": True, "epilogue": Epilogue(ranges=3)}),
    ("MU3061", "mainloop", "cooperative", {"mainloop": "multistage", "epilogue": Epilogue(ranges=2)}),
]


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 128, 192, 256])
def test_row_reductions_that_are_right(columns: int) -> None:
    assert not broken(tile=(128, columns, 64), epilogue=Epilogue(row_reductions=1))


@pytest.mark.parametrize(("code", "setting", "fix", "changes"), CASES)
def test_each_rule(code: str, setting: str, fix: str | None, changes: dict[str, object]) -> None:
    (violation,) = broken(**changes)  # type: ignore[arg-type]
    assert (violation.code, violation.setting, violation.fix) == (code, setting, fix)
    assert violation.notes


def test_every_rule_is_tried_and_explained() -> None:
    tried = {code for code, *_ in CASES}
    later = ("MU3060", "MU3061", "MU3073", "MU3074")
    explained = {c for c in CODES if ("MU3001" <= c <= "MU3020" and c != "MU3011") or c in later}
    assert tried == explained


@pytest.mark.parametrize("code", sorted({code for code, *_ in CASES}))
def test_explanations_show_a_wrong_and_a_mended_schedule(code: str) -> None:
    check_explanation(code)


def test_messages_state_what_decides() -> None:
    (violation,) = broken(stages=5)
    assert violation.message == "pipeline needs 5 stages but 4 fit in 227 KB of shared memory"
    assert violation.notes == (
        "a stage takes 48 KB: 128x64 of A and 256x64 of B, 2 bytes each",
        "the epilogue takes 17 KB",
    )
    (violation,) = broken(tile=(256, 256, 64))
    assert violation.message == (
        "tile 256x256 takes 256 registers of each thread for operands and results, but 192 are free"
    )


def test_several_rules_at_once_share_one_good_tile() -> None:
    found = broken(tile=(100, 100, 100))
    assert [v.code for v in found] == ["MU3001", "MU3002", "MU3003"]
    assert {v.fix for v in found} == {"128x96x128"}


def test_a_fix_keeps_the_pinned_stage_count() -> None:
    (violation,) = SM90.violations(changed(GOOD, tile=(128, 250, 64)), 6)
    m, n, k = map(int, str(violation.fix).split("x"))
    assert SM90.violations(changed(GOOD, tile=(m, n, k)), 6) == []


# Properties

operands = st.sampled_from(
    [(c, True, True) for c in ("bf16", "f16", "tf32")]
    + [("bf16", False, False), ("f16", True, False)]
    + [("tf32", False, True), ("tf32", True, False), ("tf32", False, False)]
)


MAINLOOPS = ("cooperative", "pingpong", "warpspecialized", "multistage")


@st.composite
def singles_and_pairs(draw: st.DrawFn) -> GemmConfig:
    config = draw(configs(operands, MAINLOOPS, st.tuples(sizes, sizes)))
    if SM90.has_pairs(config.problem.compute, config.problem.a.k_major, config.problem.b.k_major, "bf16"):
        return changed(config, rights=draw(st.sampled_from((1, 2))))
    return config


@settings(max_examples=examples(60))
@given(singles_and_pairs(), st.none() | st.integers(0, 12))
def test_fixes_lead_to_a_legal_configuration(config: GemmConfig, stages: int | None) -> None:
    config, stages = mend(SM90, config, stages)
    most = SM90.max_stages(config)
    assert most >= 2
    assert stages is None or 2 <= stages <= most
    assert SM90.smem_bytes_used(config, most) <= SM90.smem_bytes < SM90.smem_bytes_used(config, most + 1)


extents = st.none() | st.integers(1, 20000)


@settings(max_examples=examples(60))
@given(
    operands, epilogues, extents, extents, extents, st.none() | st.integers(1, 64), st.sampled_from((1, 2))
)
def test_default_schedules_break_no_rule(
    kind: tuple[str, bool, bool],
    epilogue: Epilogue,
    m: int | None,
    n: int | None,
    k: int | None,
    batch: int | None,
    rights: int,
) -> None:
    problem = Problem(
        kind[0],
        *map(Operand, kind[1:]),
        epilogue,
        m,
        n,
        k,
        batch,
        rights=rights if SM90.has_pairs(*kind, "bf16") else 1,
    )
    assert SM90.violations(config_of(problem, {})) == []


def test_mainloops_without_pairs() -> None:
    tile = (16, 64, 256)
    skinny = changed(GOOD, tile=tile, cluster=(1, 1), mainloop="skinny", rights=2)
    assert not SM90.is_legal(skinny)
    choice = SM90.default_schedule(Problem("bf16", m=1, n=4096, k=4096, rights=2))
    assert choice.mainloop in SM90.pair_mainloops


def test_two_right_operands_count_twice() -> None:
    pair = changed(GOOD, tile=(128, 128, 64), rights=2)
    assert SM90.violations(pair) == []
    # Operands take as much as of a tile that is twice as wide; the epilogue buffers the same.
    assert SM90.smem_bytes_used(pair, 4) == SM90.smem_bytes_used(GOOD, 4)
    (found,) = SM90.violations(changed(GOOD, rights=2))
    assert (found.code, found.fix) == ("MU3006", "128x192x64")
    assert "two right operands" in found.notes[0]
    (shared,) = SM90.violations(changed(pair, tile=(128, 128, 128)), 4)
    assert (shared.code, shared.notes[0]) == (
        "MU3004",
        "a stage takes 96 KB: 128x128 of A and 256x128 of B, 2 bytes each",
    )


FIXED = [
    {"mainloop": "warpspecialized"},
    {"mainloop": "pingpong"},
    {"scheduler": "stream_k(splits=1)"},
    {"scheduler": "persistent(raster=along_n, swizzle=8)"},
    {"tile": "64x128x64"},
    {"tile": "256x192x64"},
    {"cluster": "8x1"},
    {"cluster": "1x4", "mainloop": "cooperative"},
    {"stages": "7"},
    {"tile": "128x256x64", "stages": "3"},
]


def config_of(problem: Problem, fixed: dict[str, str]) -> GemmConfig:
    return problem.config(SM90.default_schedule(problem, pinned_fields(parse_settings(fixed))))


@pytest.mark.parametrize("fixed", FIXED)
@pytest.mark.parametrize("n", [None, 48, 4096])
def test_defaults_suit_what_is_fixed(fixed: dict[str, str], n: int | None) -> None:
    config = config_of(Problem("bf16", epilogue=Epilogue(row_broadcasts=(2,)), n=n), fixed)
    stages = int(fixed["stages"]) if "stages" in fixed else None
    assert SM90.violations(config, stages) == []
    for name, text in fixed.items():
        if name in ("tile", "cluster"):
            assert "x".join(map(str, getattr(config.schedule, name))) == text
        if name in ("mainloop", "scheduler"):
            assert getattr(config.schedule, name) == text.partition("(")[0]


def test_a_fixed_raster_and_swizzle_are_kept() -> None:
    choice = SM90.default_schedule(
        Problem("bf16"),
        pinned_fields(parse_settings({"scheduler": "persistent(raster=along_n, swizzle=8)"})),
    )
    assert (choice.raster, choice.swizzle) == ("along_n", 8)


@pytest.mark.parametrize(
    ("m", "n", "tile", "mainloop"),
    [
        (None, None, (128, 256, 64), "cooperative"),
        (8192, 8192, (128, 256, 64), "cooperative"),
        (128, 4096, (64, 64, 64), "pingpong"),  # 128 tiles: one wave
        (None, 32, (64, 32, 128), "pingpong"),
    ],
)
def test_default_tiles(m: int | None, n: int | None, tile: tuple[int, int, int], mainloop: str) -> None:
    choice = SM90.default_schedule(Problem("bf16", epilogue=Epilogue(row_broadcasts=(2,)), m=m, n=n, k=4096))
    assert (choice.tile, choice.mainloop) == (tile, mainloop)


def test_few_rows_take_a_skinny_kernel() -> None:
    assert SM90.default_schedule(Problem("bf16", m=4, n=4096, k=4096)).mainloop == "skinny"


def test_a_hopeless_epilogue_still_gets_a_schedule_and_a_reason() -> None:
    config = config_of(Problem("bf16", epilogue=Epilogue(4, 4, (4,) * 60)), {})
    assert [v.code for v in SM90.violations(config)] == ["MU3005"]
