"""Attention at known, typical or open sizes on a target, for which a schedule is chosen."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from xdsl.ir import Attribute

from mucc.dialects.mu.settings import SETTINGS, Chosen
from mucc.files.json_text import canonical
from mucc.kernels.attention.cost import estimate
from mucc.kernels.attention.op import AttentionKernelOp
from mucc.kernels.attention.problem import fields_of, problem_of, settings_of
from mucc.kernels.attention.schedule import (
    Problem,
    Schedule,
    complete,
    is_legal,
    neighbours,
    proposals,
)
from mucc.kernels.workload import OPEN, Estimate, Ranked, Workload
from mucc.target import get_target
from mucc.target.facts import Device, Target


@dataclass(frozen=True)
class AttentionWorkload(Workload[Schedule]):
    """Attention at some sizes on a target. All settings of a schedule are compiled into the kernel."""

    NAME = ("attention",)

    target: Target
    problem: Problem

    @property
    def signature(self) -> str:
        return canonical(self._key(sized=True))

    @property
    def form(self) -> str:
        return canonical(self._key(sized=False))

    def _key(self, *, sized: bool) -> dict[str, object]:
        """Return the key in the database of measurements; what is usual is left out."""
        p = self.problem
        key: dict[str, object] = {"attention": p.compute, "width": p.width, "result_width": p.result_width}
        flags = ("causal", "ranged", "plain", "may_decode", "is_many", "has_warpgroups")
        key |= {name: True for name in flags if getattr(p, name)}
        if p.page:
            key["page"] = p.page
        extents = {**self.extents, "group": p.group if p.group != 1 else None}
        return {**key, **{n: e for n, e in extents.items() if e is not None and sized and n != "K"}}

    @property
    def compute(self) -> str:
        return self.problem.compute

    @property
    def sizes(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Return queries, keys, elements of a row, and the product of the leading axes."""
        p = self.problem
        return p.rows, p.columns, p.width, p.batch

    @property
    def work(self) -> int:
        """Multiply-adds of both products, masked ones too."""
        p = self.problem
        return (p.batch or 1) * (p.rows or 1) * (p.columns or 1) * (p.width + p.result_width)

    # Schedules

    def candidates(self, fixed: Chosen = OPEN, device: Device | None = None) -> Iterator[Ranked[Schedule]]:
        found = (Ranked(s, self.estimate(s, device)) for s in proposals(self.problem, fields_of(fixed)))
        yield from sorted(found, key=lambda ranked: ranked.estimate.seconds)

    def unproposed(self, proposed: Iterable[Schedule], device: Device, count: int) -> Iterator[Schedule]:
        """Yield the best of mainloops that no proposal has; all are proposed unless something is pinned."""
        known = {schedule.mainloop for schedule in proposed}
        for mainloop in self.problem.mainloops:
            if mainloop not in known:
                own = (s for s in proposals(self.problem, {"mainloop": mainloop}))
                ranked = sorted(own, key=lambda s: self.estimate(s, device).seconds)
                yield from islice(ranked, count)

    def default(self, fixed: Chosen = OPEN) -> Schedule:
        """Return what is built without measurements: the estimate of the model chooses nothing by itself."""
        return complete(self.problem, fields_of(fixed))

    def completed(self, fixed: Chosen) -> Schedule:
        return self.default(fixed)

    def is_legal(self, schedule: Schedule) -> bool:
        return is_legal(self.problem, schedule)

    def estimate(self, schedule: Schedule, device: Device | None = None) -> Estimate:
        facts = self.target.facts
        return estimate(self.problem, schedule, facts, device or facts.devices[0])

    def least_seconds(self, schedule: Schedule, device: Device) -> float:
        return 0.0

    # Related schedules

    def compiled(self, schedule: Schedule) -> Schedule:
        return schedule

    def division(self, schedule: Schedule) -> int | None:
        return schedule.parts

    def shape(self, schedule: Schedule) -> Hashable:
        return (schedule.mainloop, schedule.rows, schedule.columns, schedule.parts)

    def reordered(self, schedule: Schedule) -> Sequence[Schedule]:
        """Return none: the order of tiles is fixed."""
        return ()

    def neighbours(self, schedule: Schedule) -> Sequence[Schedule]:
        return neighbours(self.problem, schedule)

    def variants(self, schedule: Schedule, *, is_first: bool) -> Sequence[Schedule]:
        """Return none: the order of tiles is fixed, and launches do not overlap."""
        return ()

    def opened(self, schedule: Schedule) -> Schedule:
        return schedule

    def counted(self, schedule: Schedule, like: Schedule) -> Schedule:
        return schedule

    # As settings

    @staticmethod
    def settings(schedule: Schedule) -> dict[str, Attribute]:
        return settings_of(schedule)

    def brief(self, schedule: Schedule) -> str:
        held = settings_of(schedule)
        words = [SETTINGS[name].brief(value) for name, value in held.items() if name != "stages"]
        return " ".join([*words, f"stages={schedule.stages}"])


def workload_of(target: str, op: AttentionKernelOp, sizes: Mapping[str, int]) -> AttentionWorkload:
    """Return the workload of a kernel. `sizes` are typical values of open dims."""
    return AttentionWorkload(get_target(target), problem_of(op, target, sizes))
