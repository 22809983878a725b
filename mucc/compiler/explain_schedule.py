"""`--explain-schedule`: the schedule that each contraction has, what it should cost, and what else was near.

The estimates are those of the target's cost model: they order schedules, and say what to change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from mucc.dialects.cutlass.ops import ProgramOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.kernels.gemm.description import problem_of, schedule_of
from mucc.kernels.gemm.op import GemmOp
from mucc.kernels.gemm.scheduling import gemm_target
from mucc.kernels.gemm.scheduling.config import Candidate, Estimate, Problem, Schedule
from mucc.kernels.gemm.select import settings_of
from mucc.kernels.settings import pinned, setting_text

if TYPE_CHECKING:
    from mucc.compiler.driver import Compilation

OTHERS = 5
"""How many runner-ups are shown."""


@dataclass(frozen=True)
class Explanation:
    """Why a contraction has its schedule. `others` are the best of the schedules that it does not have.

    `measured` says where a schedule comes from that `mucc tune` found.
    """

    kernel: str
    stage: str
    device: str
    problem: Problem
    pinned: tuple[str, ...]
    schedule: Schedule
    estimate: Estimate
    others: tuple[Candidate, ...]
    measured: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Times in seconds; extents that are not known are null."""
        p = self.problem
        return {
            "kernel": self.kernel,
            "stage": self.stage,
            "device": self.device,
            "compute": p.compute,
            "extents": {"M": p.m, "N": p.n, "K": p.k, "batch": p.batch},
            "pinned": list(self.pinned),
            "schedule": _settings(self.schedule),
            "measured": self.measured,
            "estimate": self.estimate._asdict() | {"parts": dict(self.estimate.parts)},
            "others": [
                {"schedule": _settings(o.schedule), "seconds": o.estimate.seconds} for o in self.others
            ],
        }

    def as_text(self) -> str:
        """What a person reads: the choice, where the time goes, the runner-ups."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        e = self.estimate
        extents = (("M", self.problem.m), ("N", self.problem.n), ("K", self.problem.k))
        sizes = " ".join(f"{name}={'?' if x is None else x}" for name, x in extents)
        if (self.problem.batch or 1) > 1:
            sizes += f" batch={self.problem.batch}"
        yield f"{self.kernel}, stage {self.stage}: {self.problem.compute} {sizes} on {self.device}"
        yield f"  expected {_us(e.seconds)} us, {e.flops / e.seconds / 1e12:.0f} TFLOP/s; bound by {e.limit}"
        if self.measured:
            yield f"  measured {self.measured}"
        for name, value in _settings(self.schedule).items():
            yield f"    {name:<9} = {value}{'    (pinned)' if name in self.pinned else ''}"
        yield f"  {'part':<14} {'us':>9} {'share':>6}"
        for name, seconds in e.parts.items():
            if seconds > 0:
                yield f"  {name:<14} {_us(seconds):>9} {seconds / e.seconds:>6.0%}"
        yield (
            f"  {e.waves:.2f} waves of {e.blocks} blocks, {e.tail:.0%} of the places idle; "
            f"{e.bytes / 1e6:.1f} MB to and from DRAM"
        )
        if None in (self.problem.m, self.problem.n, self.problem.k):
            yield "  extents shown as ? are taken as large: name typical ones with --dims"
        if not self.others:
            yield "  nothing else is legal with what is pinned"
            return
        yield f"  {'instead':<58} {'us':>9} {'loses':>6}"
        for other in self.others:
            loses = other.estimate.seconds / e.seconds - 1
            yield f"  {_line(other.schedule):<58} {_us(other.estimate.seconds):>9} {loses:>6.0%}"


def explain(compilation: Compilation) -> list[Explanation]:
    """One explanation for each contraction of a program, in order."""
    schedules = [op for op in compilation.stages.body.block.ops if isinstance(op, ScheduleOp)]
    programs = [op for op in compilation.cutlass.body.block.ops if isinstance(op, ProgramOp)]
    return [
        _explain(schedules, program, gemm, compilation)
        for program in programs
        for gemm in program.kernels
        if isinstance(gemm, GemmOp)
    ]


def _explain(
    schedules: list[ScheduleOp], program: ProgramOp, gemm: GemmOp, compilation: Compilation
) -> Explanation:
    target = gemm_target(program.target.data)
    problem = problem_of(gemm, compilation.options.dims)
    fixed = {n: setting_text(v) for n, v in pinned(schedules, program, gemm.stage.data).items()}
    chosen = schedule_of(gemm)
    others = (c for c in target.candidates(problem, fixed) if not _same(c.schedule, chosen))
    return Explanation(
        program.sym_name.data,
        gemm.stage.data,
        target.facts.devices[0].name,
        problem,
        tuple(fixed),
        chosen,
        target.estimate(problem, chosen),
        tuple(islice(others, OTHERS)),
        compilation.measured.get((program.sym_name.data, gemm.stage.data)),
    )


def _same(candidate: Schedule, chosen: Schedule) -> bool:
    """Whether a candidate is the chosen schedule, whose stage count is settled."""
    return replace(candidate, stages=candidate.stages or chosen.stages) == chosen


def _settings(schedule: Schedule) -> dict[str, str]:
    return {name: setting_text(value) for name, value in settings_of(schedule).items()}


def _line(schedule: Schedule) -> str:
    """A schedule in a line: what differs from the usual only."""
    settings = _settings(schedule)
    settings["scheduler"] = settings["scheduler"].replace("raster=heuristic, ", "").replace("swizzle=1", "")
    settings["scheduler"] = settings["scheduler"].removesuffix("()")
    extra = [f"{name}={settings.pop(name)}" for name in ("exchange", "stages") if name in settings]
    return " ".join([*settings.values(), *extra])


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"
