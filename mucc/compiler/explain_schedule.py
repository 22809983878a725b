"""`--explain-schedule`: the schedule of each kernel, its estimated cost, and the next best schedules.

The estimates are those of the cost model that ranks schedules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mucc.compiler.schedule_json import EstimateJson, ExplanationJson
from mucc.dialects.cutlass.ops import DeviceKernelOp, ProgramOp
from mucc.dialects.mu.schedule import ScheduleOp
from mucc.dialects.mu.settings import texts_of
from mucc.kernels.registry import kind_of
from mucc.kernels.settings import pinned
from mucc.kernels.traffic import LARGE
from mucc.kernels.workload import Estimate, Ranked, Workload
from mucc.library.entries import guards_text
from mucc.target import get_target

if TYPE_CHECKING:
    from mucc.compiler.compilation import Compilation

OTHERS = 5
"""The number of alternatives shown."""


@dataclass(frozen=True)
class Explanation:
    """The explanation of a kernel's schedule. `others` are the best alternatives.

    `schedule` has the type of the kernel's kind. `measured` is the origin of a schedule found by `mucc tune`.
    `calls` says which calls take the schedule, of a kernel with several; `else` of the last one.
    """

    kernel: str
    stage: str
    device: str
    workload: Workload[Any]
    pinned: tuple[str, ...]
    schedule: Any
    estimate: Estimate
    others: tuple[Ranked[Any], ...]
    measured: str | None = None
    calls: str | None = None

    def as_json(self) -> ExplanationJson:
        """Convert to JSON; times are in seconds, unknown extents are null."""
        return {
            "kernel": self.kernel,
            "stage": self.stage,
            "device": self.device,
            "compute": self.workload.compute,
            "extents": dict(self.workload.extents),
            "pinned": list(self.pinned),
            "schedule": self._settings(self.schedule),
            "measured": self.measured,
            "calls": self.calls,
            "estimate": _estimate_json(self.estimate),
            "others": [
                {"schedule": self._settings(o.schedule), "seconds": o.estimate.seconds} for o in self.others
            ],
        }

    def as_text(self) -> str:
        """Print as text: the schedule, the parts of its estimated time, the alternatives."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        e = self.estimate
        calls = f" for {self.calls}" if self.calls else ""
        yield f"{self.kernel}{calls}, stage {self.stage}: {self.workload.text} on {self.device}"
        yield f"  expected {_us(e.seconds)} us, {e.flops / e.seconds / 1e12:.0f} TFLOP/s; bound by {e.limit}"
        if self.measured:
            yield f"  measured {self.measured}"
        for name, value in self._settings(self.schedule).items():
            yield f"    {name:<9} = {value}{'    (pinned)' if name in self.pinned else ''}"
        yield f"  {'part':<14} {'us':>9} {'share':>6}"
        for name, seconds in e.parts.items():
            if seconds > 0:
                yield f"  {name:<14} {_us(seconds):>9} {seconds / e.seconds:>6.0%}"
        yield (
            f"  {e.waves:.2f} waves of {e.blocks} blocks, {e.tail:.0%} of the places idle; "
            f"{e.bytes / 1e6:.1f} MB to and from DRAM"
        )
        if not self.workload.is_sized:
            yield "  extents shown as ? are guessed: name typical ones with --dims"
        if not self.others:
            yield "  nothing else is legal with what is pinned"
            return
        yield f"  {'instead':<58} {'us':>9} {'loses':>6}"
        for other in self.others:
            line, seconds = self.workload.brief(other.schedule), other.estimate.seconds
            yield f"  {line:<58} {_us(seconds):>9} {seconds / e.seconds - 1:>6.0%}"

    def _settings(self, schedule: Any) -> dict[str, str]:
        return texts_of(self.workload.settings(schedule))


class _Part(NamedTuple):
    """A program, the compilation that chose its schedules, and the calls that it computes."""

    program: ProgramOp
    compilation: Compilation
    calls: str | None


def _parts(compilation: Compilation) -> Iterator[_Part]:
    """Yield the programs of a compilation; entries of one kernel come with their own compilations."""
    families = {family.kernel: family.entries for family in compilation.families}
    for program in compilation.programs:
        if program.entry_of is None:
            yield _Part(program, compilation, None)
        elif not program.boxes:
            for entry in families[program.kernel_name]:
                yield _Part(entry.program, entry.compilation, guards_text(entry.guards))


def explain(compilation: Compilation) -> list[Explanation]:
    """Explain the schedule of each kernel that has one, in order."""
    found: list[Explanation] = []
    for part in _parts(compilation):
        schedules = [op for op in part.compilation.stages.body.block.ops if isinstance(op, ScheduleOp)]
        explained = (_explain(schedules, part, op) for op in part.program.kernels)
        found += [explanation for explanation in explained if explanation is not None]
    return found


@dataclass(frozen=True)
class Choice:
    """What spoke for a kernel that was chosen without a schedule: a line for each way to compute it."""

    kernel: str
    stage: str
    sizes: str
    device: str
    lines: tuple[str, ...]

    def as_text(self) -> str:
        """Print as text."""
        lines = "".join(f"  {line}\n" for line in self.lines)
        place = f"{self.sizes} on {self.device}".lstrip()
        return f"{self.kernel}, stage {self.stage}: {place}\n{lines}"


def choices(compilation: Compilation) -> list[Choice]:
    """Say what spoke for each kernel that was chosen without a schedule, in order."""
    found: list[Choice] = []
    for program, made, calls in _parts(compilation):
        target = program.target.data
        name = f"{program.sym_name.data} for {calls}" if calls else program.sym_name.data
        for op in program.kernels:
            if lines := kind_of(op).reasons(target, op, made.options.dims):
                card = get_target(target).facts.devices[0].name
                sizes = _sizes(program, made.options.dims)
                found.append(Choice(name, op.stage.data, sizes, card, tuple(lines)))
    return found


def _sizes(program: ProgramOp, typical: Mapping[str, int]) -> str:
    """Print what run-time extents were taken as."""
    names = [name for name in program.dim_names if name not in program.bound_dims]
    taken = (f"{n}={typical[n]}" if n in typical else f"{n}=? (taken as {LARGE})" for n in names)
    return " ".join(taken)


def _explain(schedules: list[ScheduleOp], part: _Part, op: DeviceKernelOp) -> Explanation | None:
    program, compilation, calls = part
    kind, target = kind_of(op), program.target.data
    if (workload := kind.workload(target, op, compilation.options.dims)) is None:
        return None
    name, stage = program.sym_name.data, op.stage.data
    fixed = pinned(schedules, program, stage)
    chosen = workload.completed(kind.schedule(op))
    others = (c for c in workload.candidates(fixed) if workload.counted(c.schedule, chosen) != chosen)
    return Explanation(
        name,
        stage,
        workload.target.facts.devices[0].name,
        workload,
        tuple(fixed),
        chosen,
        workload.estimate(chosen),
        tuple(islice(others, OTHERS)),
        compilation.measured.get((name, stage)),
        calls,
    )


def _estimate_json(e: Estimate) -> EstimateJson:
    return {
        "seconds": e.seconds,
        "parts": dict(e.parts),
        "limit": e.limit,
        "waves": e.waves,
        "blocks": e.blocks,
        "tail": e.tail,
        "flops": e.flops,
        "bytes": e.bytes,
    }


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}"
