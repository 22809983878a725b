"""Set and check the schedule of an attention kernel: what is pinned, or was measured to suit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.schedule_attributes import Raster, SchedulerKind, Switch, SwitchAttr
from mucc.dialects.mu.settings import REPRODUCIBLE, SCHEDULER, SETTINGS, Chosen
from mucc.dialects.rewriting import Finding, PassError
from mucc.kernels.attention import problem as described
from mucc.kernels.attention.op import AttentionKernelOp
from mucc.kernels.attention.schedule import complete, violations
from mucc.kernels.attention.workload import AttentionWorkload, workload_of
from mucc.kernels.interface import Measured, Query
from mucc.kernels.violation import Violation


def select(
    program: ProgramOp,
    op: AttentionKernelOp,
    settings: Chosen,
    sizes: Mapping[str, int],
    measured: Measured,
) -> None:
    """Set the settings that are pinned or measured; the others keep the kernel's default, and stay unset."""
    workload = workload_of(program.target.data, op, sizes)
    if findings := [*_foreign(program, op, settings)]:
        raise PassError(findings)
    known = measured(Query(program.sym_name.data, op, settings, workload))
    own = [s.name for s in described.SETTINGS]
    for name, value in {**known, **settings}.items():
        if name in own:
            op.properties[name] = value
    if REPRODUCIBLE.is_on(settings):
        op.attributes[REPRODUCIBLE.name] = SwitchAttr(Switch.ON)


def _foreign(program: ProgramOp, op: AttentionKernelOp, settings: Chosen) -> Iterator[Finding]:
    """Yield findings about settings that kernels of attention do not have, unless they are off."""
    own = (*(s.name for s in described.SETTINGS), REPRODUCIBLE.name)
    for name, value in settings.items():
        if name in own or SETTINGS[name].is_unset(value):
            continue
        yield Finding(
            code="MU3085",
            message=f"attention has no setting '{name}'",
            location=op.location,
            kernel=program.sym_name.data,
            stage=op.stage.data,
            setting=name,
            notes=(f"its settings are {', '.join(own)}",),
            helps=("leave it out",),
        )


def schedule_findings(program: ProgramOp, op: AttentionKernelOp) -> Iterator[Finding]:
    """Return the findings about a schedule that is set; none of the default."""
    settings = described.settings_in(op)
    if not settings:
        return
    problem = described.problem_of(op, program.target.data)
    schedule = complete(problem, described.fields_of(settings))
    for broken in (*_scheduler_rules(settings), *violations(problem, schedule)):
        yield broken.finding(program, op, AttentionWorkload.settings(schedule))


def _scheduler_rules(settings: Chosen) -> Iterator[Violation]:
    """Refuse schedulers that divide something else than keys, and orders of tiles."""
    if (scheduler := SCHEDULER.of(settings)) is None:
        return
    if scheduler.kind.data == SchedulerKind.STREAM_K:
        note = "`split_k(n)` divides the keys of few queries in n parts; left out, the launch chooses n"
        yield Violation("MU3088", SCHEDULER.name, "attention has no stream_k", (note,), "split_k(4)")
    elif scheduler.raster.data != Raster.HEURISTIC or scheduler.swizzle.data != 1:
        note = "heads whose keys fit into L2 come one after the other, their longest blocks first"
        yield Violation(
            "MU3088", SCHEDULER.name, "the order of attention's tiles is fixed", (note,), "persistent"
        )
