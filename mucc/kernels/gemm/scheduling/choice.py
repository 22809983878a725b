"""Choose schedules without measurement: the legal proposal of a family with the least estimated time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mucc.kernels.gemm.scheduling.config import Candidate, Pinned, Problem, Schedule
from mucc.target.facts import Device

if TYPE_CHECKING:
    from mucc.kernels.gemm.scheduling.base import Family, GemmTarget

WORTH = 0.08
"""How much faster a schedule has to be that is chosen for functions in the epilogue: without it, kernels with
all functions share a skeleton, and a new function compiles in half a second."""


def candidates(target: GemmTarget, problem: Problem, pinned: Pinned, device: Device) -> Iterator[Candidate]:
    """See `GemmTarget.candidates`."""
    found = False
    for candidate in _ordered(target, problem, _proposed(target, problem, pinned), device):
        found = True
        yield candidate
    if found:
        return
    legal = [s for s in _everything(target, problem, pinned) if _is_legal(target, problem, s)]
    yield from _ordered(target, problem, legal, device)
    if not legal and problem.listed:
        # No kernel computes a list in one launch: one of any kind runs once for each problem.
        yield from candidates(target, problem._replace(listed=False), pinned, device)


def choose(target: GemmTarget, problem: Problem, pinned: Pinned) -> Schedule:
    """See `GemmTarget.default_schedule`."""
    device = target.facts.devices[0]
    if best := next(candidates(target, problem, pinned, device), None):
        if not problem.epilogue.instructions:
            return best.schedule
        epilogue = replace(problem.epilogue, instructions=0)
        shared = target.default_schedule(problem._replace(epilogue=epilogue), pinned)
        most = (1 + WORTH) * best.estimate.seconds
        return shared if target.estimate(problem, shared, device).seconds <= most else best.schedule

    def rank(schedule: Schedule) -> tuple[int, float]:
        broken = len(target.violations(problem.config(schedule), schedule.stages))
        return broken, target.estimate(problem, schedule, device).seconds

    return min(_proposed(target, problem, pinned), key=rank)


def _ordered(
    target: GemmTarget, problem: Problem, schedules: Iterable[Schedule], device: Device
) -> Iterator[Candidate]:
    """Those that are legal, by estimate; equal ones in the order that they came in."""
    estimated = [(schedule, target.estimate(problem, schedule, device)) for schedule in schedules]
    for schedule, estimate in sorted(estimated, key=lambda pair: pair[1].seconds):
        if _is_legal(target, problem, schedule):
            yield Candidate(schedule, problem.config(schedule), estimate)


def _is_legal(target: GemmTarget, problem: Problem, schedule: Schedule) -> bool:
    return target.is_legal(problem.config(schedule), schedule.stages)


def _proposed(target: GemmTarget, problem: Problem, pinned: Mapping[str, Any]) -> list[Schedule]:
    """Return the schedules that families propose, with the pinned settings, each once."""
    own = _own(pinned)
    return _unique(target, problem, pinned, lambda f, seen: f.proposals(target.facts, seen, own))


def _everything(target: GemmTarget, problem: Problem, pinned: Mapping[str, Any]) -> list[Schedule]:
    """All that the families have which would propose something for the problem."""

    def all_of(family: Family, seen: Problem) -> Iterator[Schedule]:
        if next(family.proposals(target.facts, seen, own), None) is not None:
            yield from family.everything(target.facts, seen)

    own = _own(pinned)
    return _unique(target, problem, pinned, all_of)


def _own(pinned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pinned settings that a family sees: operands reach it exchanged already."""
    return {name: value for name, value in pinned.items() if name != "exchanged"}


_APART = {"mainloop", "scheduler", "exchanged", "pdl", "epilogue_tile"}
"""Settings that may ask for a kernel which runs once for each problem of a list."""


def _unique(
    target: GemmTarget,
    problem: Problem,
    pinned: Mapping[str, Any],
    proposals: Callable[[Family, Problem], Iterator[Schedule]],
) -> list[Schedule]:
    """Schedules with the pinned fields; a mainloop that is pinned is left to the family that has it."""
    grouped = target.grouped_mainloops if problem.is_grouped else ()
    listed = target.list_mainloops if problem.listed and not pinned.keys() & _APART else ()
    own = next((f for f in target.families if pinned.get("mainloop") in f.mainloops), None)
    schedules = (
        s.having(fields)
        for family in ([own] if own else target.families)
        for exchanged in _ways_round(family, problem, pinned)
        for fields in ({"exchanged": exchanged, **pinned},)
        for s in proposals(family, problem.transposed if exchanged else problem)
        if own or not grouped or s.mainloop in grouped
        if not listed or (s.mainloop in listed and s.scheduler == "persistent")
    )
    return list(dict.fromkeys(schedules))


def _ways_round(family: Family, problem: Problem, pinned: Mapping[str, Any]) -> tuple[bool, ...]:
    """Whether to exchange operands. A pinned tile counts the product as it stands unless otherwise said."""
    if "exchanged" in pinned:
        return (bool(pinned["exchanged"]),)
    possible = family.exchanges(problem)
    return possible[:1] if "tile" in pinned else possible
