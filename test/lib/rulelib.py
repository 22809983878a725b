"""What tests of targets' rules share: drawing and mending configurations, checking explanations' examples."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import strategies as st

from mucc.compiler.driver import Options, compile_text
from mucc.diagnostics import DiagnosticError, Source
from mucc.diagnostics.codes import CODES
from mucc.kernels.gemm.scheduling.base import GemmTarget
from mucc.kernels.gemm.scheduling.config import Epilogue, GemmConfig, Problem, Schedule
from mucc.kernels.gemm.scheduling.operand import Operand
from mucc.kernels.violation import Violation
from mucc.target.facts import WIDEST_ACCESS

ACROSS = Operand(k_major=False)
"""An operand of which another axis than K is contiguous."""

SETTINGS = {field.name for field in fields(Schedule)}

sizes = st.integers(0, 300) | st.sampled_from((16, 32, 64, 128, 192, 256))
_element = st.sampled_from((2, 4))
epilogues = st.builds(
    Epilogue,
    destination=st.sampled_from((None, 2, 4)),
    source=st.sampled_from((None, 2, 4)),
    aux_loads=st.lists(_element, max_size=2).map(tuple),
    aux_stores=st.lists(_element, max_size=2).map(tuple),
    row_broadcasts=st.lists(_element, max_size=3).map(tuple),
    row_reductions=st.integers(0, 1),
    destination_is_col_major=st.booleans(),
    col_broadcasts=st.lists(_element, max_size=2).map(tuple),
    col_reductions=st.integers(0, 1),
    scalars=st.integers(0, 1),
)


@st.composite
def configs(
    draw: st.DrawFn,
    operands: st.SearchStrategy[tuple[str, bool, bool]],
    mainloops: tuple[str, ...],
    epilogue_tiles: st.SearchStrategy[tuple[int, int]],
) -> GemmConfig:
    """Configurations, few of them legal; `operands` are a format, then whether K is contiguous in A and B."""
    compute, a_k_major, b_k_major = draw(operands)
    scheduler = draw(st.sampled_from(("persistent", "stream_k", "split_k")))
    problem = Problem(compute, Operand(a_k_major), Operand(b_k_major), draw(epilogues))
    schedule = Schedule(
        draw(st.tuples(sizes, sizes, sizes)),
        draw(st.tuples(st.integers(0, 9), st.integers(0, 9))),
        draw(st.sampled_from(mainloops)),
        scheduler,
        splits=1 if scheduler == "persistent" else draw(st.integers(0, 200)),
        swizzle=draw(st.integers(0, 9)) if scheduler == "persistent" else 1,
        exchanged=draw(st.booleans()),
        epilogue_tile=draw(st.none() | epilogue_tiles),
        pdl=draw(st.booleans()),
    )
    return GemmConfig(problem, schedule)


def changed(config: GemmConfig, **changes: Any) -> GemmConfig:
    """The configuration with other fields of its schedule, and of its problem as the kernel sees it."""
    own = {name: changes.pop(name) for name in SETTINGS & changes.keys()}
    return GemmConfig(config.problem._replace(**changes), replace(config.schedule, **own))


def with_rows(problem: Problem, a: int, b: int) -> Problem:
    """The problem with rows of A and B that are known to be multiples of so many bytes, at most 16."""
    wide = a == b == WIDEST_ACCESS
    return problem._replace(a=problem.a._replace(granule=a), b=problem.b._replace(granule=b), wide=wide)


def check_explanation(code: str, target: str = "sm_90a") -> None:
    """The wrong example of a code gives the code and no other, and the mended one compiles."""
    wrong, mended = re.findall(r"```mcu\n(.*?)```", CODES[code][1], re.DOTALL)
    options = Options(target)
    with pytest.raises(DiagnosticError) as caught:
        compile_text(Source("wrong.mcu", wrong), options)
    assert {d.code for d in caught.value.diagnostics} == {code}
    compile_text(Source("mended.mcu", mended), options)


def mend(target: GemmTarget, config: GemmConfig, stages: int | None) -> tuple[GemmConfig, int | None]:
    """The legal configuration that one fix after the other leads to, soon."""
    for _ in range(8):
        found = target.violations(config, stages)
        if not found:
            break
        assert all(v.code in CODES and v.fix is not None and v.notes for v in found)
        config, stages = apply(found[0], config, stages)
    assert target.violations(config, stages) == []
    return config, stages


def apply(violation: Violation, config: GemmConfig, stages: int | None) -> tuple[GemmConfig, int | None]:
    """The configuration with a fix written into it, as the language would read it."""
    text = str(violation.fix)
    match violation.setting:
        case "stages":
            return config, None if text == "auto" else int(text)
        case "tile" | "cluster":
            return config.having(**{violation.setting: tuple(map(int, text.split("x")))}), stages
        case "pdl":
            return config.having(pdl=text == "on"), stages
        case "epilogue":
            piece = None if text == "auto" else tuple(map(int, text.split("x")))
            return config.having(epilogue_tile=piece), stages  # type: ignore[arg-type]
        case "exchange":
            assert text == ("off" if config.schedule.exchanged else "on")
            return config.transposed, stages
        case "mainloop":
            return config.having(mainloop=text), stages
        case "scheduler":
            kind, _, argument = text.rstrip(")").partition("(")
            number = int(argument.split("=")[-1]) if argument else 1
            name = "swizzle" if kind == "persistent" else "splits"
            return config.having(**{"scheduler": kind, "swizzle": 1, "splits": 1, name: number}), stages
        case other:
            raise AssertionError(other)
