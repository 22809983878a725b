"""The table of settings: what is written is read again, as text, as JSON, from source and as schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute

from mucc import frontend
from mucc.diagnostics import Source
from mucc.diagnostics.explain import explain
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.schedule_attributes import (
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    Raster,
    SchedulerAttr,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.dialects.mu.settings import SETTINGS, parse_settings, texts_of
from mucc.frontend.reference import settings_table
from mucc.kernels.gemm.settings import schedule_from, settings_of

SIZE = st.integers(1, 512)
COUNT = st.integers(1, 64)
SCHEDULERS = st.one_of(
    st.builds(lambda r, s: SchedulerAttr.of("persistent", r, s), st.sampled_from(Raster), COUNT),
    st.builds(lambda n: SchedulerAttr.of("stream_k", splits=n), COUNT),
    st.builds(lambda n: SchedulerAttr.of("split_k", splits=n), COUNT),
)
SWITCHES = st.sampled_from(Switch).map(SwitchAttr)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tile": st.builds(TileAttr.of, SIZE, SIZE, SIZE),
    "cluster": st.builds(ClusterAttr.of, SIZE, SIZE),
    "mainloop": st.sampled_from(Mainloop).map(MainloopAttr),
    "stages": COUNT.map(lambda n: IntegerAttr(n, i64)),
    "scheduler": SCHEDULERS,
    "exchange": SWITCHES,
    "epilogue": st.builds(EpilogueTileAttr.of, SIZE, SIZE),
    "pdl": SWITCHES,
    "reproducible": SWITCHES,
}
SCHEDULES = st.fixed_dictionaries({}, optional=VALUES)


def of_source(texts: dict[str, str]) -> dict[str, Attribute]:
    """The settings of a program's schedule with these texts."""
    lines = "\n".join(f"    {name} = {text}" for name, text in texts.items())
    kernel = "kernel f[M](x: bf16[M]) -> bf16[M] {\n    return x\n}\n"
    program, sink = frontend.parse(Source("f.mcu", f"{kernel}schedule f for sm_90a {{\n{lines}\n}}\n"))
    module = frontend.lower(program, sink)
    sink.raise_if_errors()
    (schedule,) = (op for op in module.body.block.ops if isinstance(op, ScheduleOp))
    return dict(schedule.settings.data)


def test_every_setting_has_values_here() -> None:
    assert list(VALUES) == list(SETTINGS)


@given(SCHEDULES)
def test_texts_are_read_again_as_the_frontend_reads_them(settings: dict[str, Attribute]) -> None:
    texts = texts_of(settings)
    assert parse_settings(texts) == settings == of_source(texts)


@given(SCHEDULES)
def test_json_is_read_again(settings: dict[str, Attribute]) -> None:
    for setting in SETTINGS.values():
        value = setting.of(settings)
        read = setting.from_json(setting.json(value))
        assert read == value or (setting.is_unset(value) and read is None)


@given(SCHEDULES)
def test_schedules_of_contractions_hold_their_settings(settings: dict[str, Attribute]) -> None:
    schedule = schedule_from(settings)
    on = {name: value for name, value in settings.items() if not SETTINGS[name].is_unset(value)}
    assert on.items() <= settings_of(schedule).items()
    assert schedule_from(settings_of(schedule)) == schedule


@pytest.mark.parametrize("name", ["stages", "epilogue"])
def test_what_is_left_to_the_compiler_is_left_out(name: str) -> None:
    assert parse_settings({name: " auto "}) == {} == of_source({name: "auto"})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("scheduler", "persistent()", SchedulerAttr.of()),
        (
            "scheduler",
            "persistent( swizzle = 2 , raster=along_m, )",
            SchedulerAttr.of(raster="along_m", swizzle=2),
        ),
        ("scheduler", "stream_k(3)", SchedulerAttr.of("stream_k", splits=3)),
        ("scheduler", "split_k(splits=4)", SchedulerAttr.of("split_k", splits=4)),
    ],
)
def test_other_ways_to_write_a_value(name: str, text: str, value: Attribute) -> None:
    assert parse_settings({name: text}) == {name: value} == of_source({name: text})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tile", "128x256", "'tile' must be MxNxK, for example 128x256x64"),
        ("tile", "auto", "'tile' must be MxNxK"),
        ("cluster", "0x1", "'cluster' must be made of positive sizes"),
        ("epilogue", "64", "'epilogue' must be auto or MxN, for example 64x32"),
        ("mainloop", "pong", "'pong' is no value of 'mainloop'"),
        ("mainloop", "pingpong()", "'mainloop' must be a word without brackets"),
        ("stages", "0", "'stages' must be auto or a number of at least 1"),
        ("scheduler", "split_k()", "split_k needs the number of splits"),
        ("scheduler", "persistent(8)", "give the parameters of persistent by name"),
        ("scheduler", "persistent(splits=2)", "persistent has no parameter 'splits'"),
        ("scheduler", "persistent(raster=3)", "'raster' must be one of"),
        ("scheduler", "stream_k(2, splits=3)", "'splits' is given twice"),
        ("scheduler", "split_k(4", "has no closing bracket"),
        ("pdl", "yes", "'yes' is no value of 'pdl'"),
        ("depth", "3", "there is no setting 'depth'"),
    ],
)
def test_texts_that_are_no_value_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        parse_settings({name: text})


@pytest.mark.parametrize(
    ("value", "brief"),
    [
        (SchedulerAttr.of(), "persistent"),
        (SchedulerAttr.of(swizzle=2), "persistent(swizzle=2)"),
        (SchedulerAttr.of(raster="along_m", swizzle=8), "persistent(raster=along_m, swizzle=8)"),
        (SchedulerAttr.of("stream_k"), "stream_k"),
        (SchedulerAttr.of("split_k", splits=4), "split_k(4)"),
    ],
)
def test_tables_have_schedulers_without_what_is_usual(value: SchedulerAttr, brief: str) -> None:
    assert SETTINGS["scheduler"].brief(value) == brief


def test_the_documentation_has_the_table() -> None:
    assert all(f"`{name}`" in (explain("MU1043") or "") for name in SETTINGS)
    docs = Path(__file__).parents[3] / "docs" / "language.md"
    assert settings_table() in docs.read_text(encoding="utf-8")
