"""Schedules to `mu.schedule` operations: names, settings and the form of their values.

What is legal on a target is checked where the target is known, by the legalisation passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute

from mucc.diagnostics.core import Applicability, Span
from mucc.dialects.mu.schedule import (
    SETTINGS,
    ClusterAttr,
    EpilogueTileAttr,
    Mainloop,
    MainloopAttr,
    Raster,
    ScheduleOp,
    SchedulerAttr,
    SchedulerKind,
    Switch,
    SwitchAttr,
    TileAttr,
)
from mucc.frontend import ast
from mucc.frontend.context import Context

_NUMBERED = re.compile("s[0-9]+")
"""Names that stage formation gives to stages that have no other; it knows which of them exist."""


def lower_schedules(context: Context, program: ast.Program) -> list[ScheduleOp]:
    """All schedules that have no error."""
    kernels = {k.name.text: k for k in program.kernels}
    seen: dict[tuple[str, str, str], ast.Schedule] = {}
    ops: list[ScheduleOp] = []
    for schedule in program.schedules:
        stage = schedule.stage.text if schedule.stage else ""
        key = (schedule.kernel.text, stage, schedule.target.text)
        first = seen.setdefault(key, schedule)
        if first is not schedule:
            _scheduled_twice(context, schedule, first)
        known = _check_names(context, schedule, kernels)
        settings = _settings(context, schedule)
        if known and first is schedule:
            op = ScheduleOp(schedule.kernel.text, stage or None, schedule.target.text, settings)
            op.location = context.location(schedule.span)
            ops.append(op)
    return ops


def _scheduled_twice(context: Context, schedule: ast.Schedule, first: ast.Schedule) -> None:
    name = schedule.kernel.text + (f".{schedule.stage.text}" if schedule.stage else "")
    context.error(
        "MU1045",
        f"'{name}' is scheduled twice for {schedule.target.text}",
        schedule.kernel.span,
        labels=((first.kernel.span, "first scheduled here"),),
        helps=("put all settings into one schedule",),
    )


def _check_names(context: Context, schedule: ast.Schedule, kernels: dict[str, ast.Kernel]) -> bool:
    """Report an unknown kernel, stage or target."""
    from mucc.target import TARGETS

    good = True
    name, target = schedule.kernel.text, schedule.target.text
    kernel = kernels.get(name)
    if kernel is None:
        message = f"schedule for an unknown kernel '{name}'"
        context.unknown("MU1040", message, schedule.kernel.span, name, kernels)
        good = False
    elif schedule.stage:
        stages = [s.name.text for s in kernel.body if s.is_stage] + list(kernel.result_names)
        if schedule.stage.text not in stages and not _NUMBERED.fullmatch(schedule.stage.text):
            _unknown_stage(context, kernel, schedule.stage, stages)
            good = False
    if target not in TARGETS:
        note = (f"targets are {', '.join(TARGETS)}",)
        context.unknown("MU1042", f"unknown target '{target}'", schedule.target.span, target, TARGETS, note)
        good = False
    return good


def _unknown_stage(context: Context, kernel: ast.Kernel, stage: ast.Ident, stages: list[str]) -> None:
    helps: tuple[str, ...] = ()
    if any(s.name.text == stage.text for s in kernel.body):
        helps = (f"pin it: `stage {stage.text} = ...`",)
    context.unknown(
        "MU1041",
        f"the kernel '{kernel.name.text}' has no stage '{stage.text}'",
        stage.span,
        stage.text,
        stages,
        (f"its stages are {', '.join(stages)}",),
        helps,
    )


def _unknown(
    context: Context,
    code: str,
    message: str,
    span: Span,
    word: str,
    known: Iterable[str],
    notes: tuple[str, ...] = (),
) -> None:
    """Report a word of a schedule. Whatever it is mended into, results stay the same."""
    sure = Applicability.MACHINE_APPLICABLE
    context.unknown(code, message, span, word, known, notes, applicability=sure)


def _settings(context: Context, schedule: ast.Schedule) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for setting in schedule.settings:
        name = setting.name.text
        if name not in SETTINGS:
            note = (f"settings are {', '.join(SETTINGS)}",)
            _unknown(context, "MU1043", f"unknown setting '{name}'", setting.name.span, name, SETTINGS, note)
        elif value := _READERS[SETTINGS[name]](context, setting):
            found[name] = value
    return found


def _bad_value(context: Context, setting: ast.Setting, wanted: str) -> None:
    context.error("MU1044", f"'{setting.name.text}' must be {wanted}", setting.value.span)


def _sizes(context: Context, setting: ast.Setting, rank: int, form: str) -> tuple[int, ...]:
    """The sizes of a shape, or nothing after an error."""
    value = setting.value
    if not isinstance(value, ast.Shape) or len(value.values) != rank:
        _bad_value(context, setting, form)
        return ()
    if 0 in value.values:
        _bad_value(context, setting, "made of positive sizes")
        return ()
    return value.values


def _tile(context: Context, setting: ast.Setting) -> Attribute | None:
    match _sizes(context, setting, 3, "MxNxK, for example 128x256x64"):
        case (m, n, k):
            return TileAttr.of(m, n, k)
        case _:
            return None


def _cluster(context: Context, setting: ast.Setting) -> Attribute | None:
    match _sizes(context, setting, 2, "MxN, for example 2x1"):
        case (m, n):
            return ClusterAttr.of(m, n)
        case _:
            return None


def _epilogue(context: Context, setting: ast.Setting) -> Attribute | None:
    if isinstance(setting.value, ast.Word) and setting.value.text == "auto" and setting.value.args is None:
        return None
    match _sizes(context, setting, 2, "auto or MxN, for example 64x32"):
        case (m, n):
            return EpilogueTileAttr.of(m, n)
        case _:
            return None


def _bare_word(context: Context, setting: ast.Setting, choices: tuple[str, ...]) -> str | None:
    word = _word(context, setting, choices)
    if word is None:
        return None
    if word.args is not None:
        _bad_value(context, setting, "a word without brackets")
        return None
    return word.text


def _mainloop(context: Context, setting: ast.Setting) -> Attribute | None:
    word = _bare_word(context, setting, tuple(Mainloop))
    return MainloopAttr(Mainloop(word)) if word else None


def _switch(context: Context, setting: ast.Setting) -> Attribute | None:
    word = _bare_word(context, setting, tuple(Switch))
    return SwitchAttr(Switch(word)) if word else None


def _stages(context: Context, setting: ast.Setting) -> Attribute | None:
    match setting.value:
        case ast.IntLit(value=count) if count >= 1:
            return IntegerAttr(count, i64)
        case ast.Word(text="auto", args=None):
            return None
        case _:
            _bad_value(context, setting, "auto or a number of at least 1")
            return None


def _word(context: Context, setting: ast.Setting, choices: tuple[str, ...]) -> ast.Word | None:
    """The value as one of the words, or None after an error."""
    name, value = setting.name.text, setting.value
    if not isinstance(value, ast.Word):
        _bad_value(context, setting, f"one of {', '.join(choices)}")
        return None
    if value.text not in choices:
        note = (f"it is one of {', '.join(choices)}",)
        span = type(value.span)(value.span.start, value.span.start + len(value.text))
        _unknown(
            context, "MU1044", f"'{value.text}' is no value of '{name}'", span, value.text, choices, note
        )
        return None
    return value


_SCHEDULER_PARAMS: dict[str, Sequence[str]] = {
    SchedulerKind.PERSISTENT: ("raster", "swizzle"),
    SchedulerKind.STREAM_K: ("splits",),
    SchedulerKind.SPLIT_K: ("splits",),
}


def _scheduler(context: Context, setting: ast.Setting) -> Attribute | None:
    word = _word(context, setting, tuple(SchedulerKind))
    if word is None:
        return None
    params = _SCHEDULER_PARAMS[word.text]
    values: dict[str, str | int] = {}
    good = True
    for argument in word.args or ():
        name = argument.name.text if argument.name else params[0]
        if argument.name is None and (len(params) > 1 or name in values):
            context.error(
                "MU1044",
                f"give the parameters of {word.text} by name",
                argument.span,
                notes=(f"they are {', '.join(params)}",),
            )
            good = False
        elif name not in params:
            span = argument.name.span if argument.name else argument.span
            note = (f"it has {', '.join(params)}",)
            _unknown(context, "MU1044", f"{word.text} has no parameter '{name}'", span, name, params, note)
            good = False
        elif name in values:
            context.error("MU1044", f"'{name}' is given twice", argument.span)
            good = False
        elif (value := _scheduler_value(context, name, argument.value)) is None:
            good = False
        else:
            values[name] = value
    if word.text == SchedulerKind.SPLIT_K and good and "splits" not in values:
        context.error("MU1044", "split_k needs the number of splits", word.span, helps=("split_k(4)",))
        good = False
    if not good:
        return None
    return SchedulerAttr.of(
        word.text,
        str(values.get("raster", Raster.HEURISTIC)),
        int(values.get("swizzle", 1)),
        int(values.get("splits", 1)),
    )


def _scheduler_value(context: Context, name: str, value: ast.Value) -> str | int | None:
    if name == "raster":
        if isinstance(value, ast.Word) and value.args is None and value.text in tuple(Raster):
            return value.text
        wanted = f"one of {', '.join(Raster)}"
        if isinstance(value, ast.Word):
            _unknown(context, "MU1044", f"'raster' must be {wanted}", value.span, value.text, tuple(Raster))
            return None
    else:
        if isinstance(value, ast.IntLit) and value.value >= 1:
            return value.value
        wanted = "a number of at least 1"
    context.error("MU1044", f"'{name}' must be {wanted}", value.span)
    return None


_READERS: dict[type[Attribute], Callable[[Context, ast.Setting], Attribute | None]] = {
    TileAttr: _tile,
    ClusterAttr: _cluster,
    MainloopAttr: _mainloop,
    IntegerAttr: _stages,
    SwitchAttr: _switch,
    EpilogueTileAttr: _epilogue,
    SchedulerAttr: _scheduler,
}
