"""Generate `mu.schedule` operations: check names, settings and the form of their values.

Passes that know the target, `legalize_*`, check whether values are legal on it.
"""

from __future__ import annotations

import re

from xdsl.ir import Attribute

from mucc.diagnostics.core import Applicability
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.setting_kinds import Argument, Fault, Number, Sizes, Value, Word
from mucc.dialects.mu.settings import SETTINGS
from mucc.frontend import ast, foreign
from mucc.frontend.context import Context

_NUMBERED = re.compile("s[0-9]+")
"""Names that stage formation gives to unnamed stages. Whether such a stage exists is checked there."""


def lower_schedules(context: Context, program: ast.Program) -> list[ScheduleOp]:
    """Generate an op for each schedule without errors, and report the others."""
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
    from mucc.target import TARGETS, meant_by

    good = True
    name, target = schedule.kernel.text, schedule.target.text
    kernel = kernels.get(name)
    if kernel is None:
        message = f"schedule for an unknown kernel '{name}'"
        helps = (f"kernels are {', '.join(kernels)}",) if kernels else ()
        context.unknown("MU1040", message, schedule.kernel.span, name, kernels, helps=helps)
        good = False
    elif schedule.stage:
        stages = [s.name.text for s in kernel.body if s.is_stage] + list(kernel.result_names)
        if schedule.stage.text not in stages and not _NUMBERED.fullmatch(schedule.stage.text):
            _unknown_stage(context, kernel, schedule.stage, stages)
            good = False
    if target not in TARGETS:
        note = (f"targets are {', '.join(TARGETS)}",)
        meant = meant_by(target) or target
        context.unknown("MU1042", f"unknown target '{target}'", schedule.target.span, meant, TARGETS, note)
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


def _settings(context: Context, schedule: ast.Schedule) -> dict[str, Attribute]:
    """Return the values of all correct settings that are not left to the compiler; errors are reported."""
    values: dict[str, Attribute] = {}
    for setting in schedule.settings:
        name = setting.name.text
        if (known := SETTINGS.get(name)) is None:
            note = f"settings are {', '.join(SETTINGS)}"
            message = f"unknown setting '{name}'"
            helps = foreign.setting_help(name)
            known = () if helps else tuple(SETTINGS)
            _report(context, "MU1043", Fault(message, setting.name.span, (note,), helps, name, known))
            continue
        faults: list[Fault] = []
        value = known.read(_value(setting.value), faults)
        for fault in faults:
            _report(context, "MU1044", fault)
        if value is not None:
            values[name] = value
    return values


def _report(context: Context, code: str, fault: Fault) -> None:
    """Report an error in a schedule. A spelling fix is safe to apply: schedules do not change results."""
    if fault.known:
        sure = Applicability.MACHINE_APPLICABLE
        word = _meant(fault.word, fault.known)
        context.unknown(code, fault.message, fault.span, word, fault.known, fault.notes, applicability=sure)
    else:
        context.error(code, fault.message, fault.span, notes=fault.notes, helps=fault.helps)


def _meant(word: str, known: tuple[str, ...]) -> str:
    """Return the one of `known` that a word of another language holds, such as `True`, or else the word."""
    if (switch := foreign.SWITCHES.get(word)) in known:
        return switch
    held = [value for value in known if len(value) > 3 and value in word.lower()]
    return max(held, key=word.lower().rfind, default=word)  # KernelTmaWarpSpecializedPingpong


def _value(value: ast.Value) -> Value:
    """Convert a value of the AST to the form that settings read."""
    match value:
        case ast.Shape():
            return Sizes(value.values, value.span)
        case ast.IntLit():
            return Number(value.value, value.span)
        case ast.Word():
            arguments = None if value.args is None else tuple(map(_argument, value.args))
            return Word(value.text, arguments, value.span)


def _argument(argument: ast.ValueArg) -> Argument:
    name = argument.name
    return Argument(
        name.text if name else "",
        _value(argument.value),
        argument.span,
        name.span if name else argument.span,
    )
