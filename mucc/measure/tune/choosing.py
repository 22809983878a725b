"""Make a plan from programs: choose the schedules to build, by the target's cost model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from xdsl.ir import Attribute

from mucc.database.records import Choice, Settings, support_digest
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.dialects.mu.settings import Chosen, parse_settings, texts_of
from mucc.files.json_text import canonical
from mucc.kernels.workload import Ranked, S, Workload
from mucc.measure.tune.analysis import Analysis, analyse
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Program
from mucc.target import DEFAULT_TARGET
from mucc.version import __version__

T = TypeVar("T")

BUDGET = 24
"""Skeletons built for a kernel at most: each takes nvcc about half a minute and 4 GB."""

FACTOR = 1.5
"""Schedules that should take so many times as long as the best are not tried, …"""

MEASURED = 2.5
"""… nor measured at sizes other than those that they were built for."""

ALIKE = 1.08
"""A candidate counts as so many times slower for each one of the same shape that was chosen before it: the
model tells shapes apart better than clusters, depths and the way round of one shape, so shapes come first."""

SPLITS = 3
"""Numbers of splits that are tried of one skeleton."""

REFINED = 3
"""Of this many candidates one, the best by the model, is also tried with its work in other orders, which
costs no build."""


def plan(
    programs: Program | Iterable[Program],
    *,
    target: str = DEFAULT_TARGET,
    budget: int = BUDGET,
    factor: float = FACTOR,
    keep_pins: bool = False,
    start: Mapping[str, Choice] | None = None,
) -> Plan:
    """Choose the candidates to build and measure for some programs.

    `budget` bounds the skeletons built for each kernel, all its contractions and sizes taken together.
    `keep_pins` holds the settings of the programs' own schedules; without it they are not looked at. `start`
    has choices to begin with by a kernel's digest, for kernels of several contractions: while one is tried,
    the others have this, else the model's. Raises DiagnosticError for programs with errors, dims that do not
    fit them (MU6050 to MU6052), and where there is nothing to tune (MU5304).
    """
    kernels: list[Kernel] = []
    for program in [programs] if isinstance(programs, Program) else programs:
        for analysis in analyse(program, target, keep_pins=keep_pins):
            first = first_choice(analysis) | dict((start or {}).get(analysis.kernel.digest, {}))
            shares = split_budget(budget, len(analysis.stages))
            candidates = {
                c.id: c
                for (stage, share) in zip(analysis.stages, shares, strict=True)
                for c in candidates_of(analysis, stage, first, share, factor)
            }
            kernels.append(replace(analysis.kernel, candidates=tuple(candidates.values())))
    return Plan(target, __version__, support_digest(), tuple(kernels))


def split_budget(budget: int, stages: int) -> list[int]:
    """Divide the budget among stages, with at least one build for each."""
    return [max(1, budget // stages + (i < budget % stages)) for i in range(stages)]


def first_choice(analysis: Analysis) -> dict[str, Settings]:
    """Return the model's choice for every contraction, for all sizes together."""
    return {
        name: chosen[0][0]
        for name in analysis.stages
        if (chosen := ranked(analysis, name, budget=1, factor=math.inf))
    }


def candidates_of(
    analysis: Analysis, stage: str, others: Choice, budget: int, factor: float = FACTOR
) -> list[Candidate]:
    """Candidates for one contraction, those most worth a build first; the others have what is chosen."""
    kernel = analysis.kernel
    found: list[Candidate] = []
    for settings, estimates in ranked(analysis, stage, budget, factor):
        choice = {name: settings if name == stage else others[name] for name in kernel.bodies}
        found.append(Candidate(candidate_id(kernel, choice), stage, choice, estimates))
    return found


def candidate_of(analysis: Analysis, stage: str, choice: Choice) -> Candidate:
    """Return a candidate for a known choice, to be measured at all sizes."""
    kernel = analysis.kernel
    chosen = parse_settings(choice[stage])
    estimates = [w.estimate(w.default(chosen)).seconds * 1e6 for w in analysis.workloads[stage]]
    return Candidate(candidate_id(kernel, choice), stage, choice, tuple(estimates))


def candidate_id(kernel: Kernel, choice: Choice) -> str:
    """Names a library: equal for equal programs, schedules and support code."""
    from mucc.files.digest import digest

    chosen = canonical({stage: dict(settings) for stage, settings in choice.items()})
    return digest(kernel.digest, kernel.name, kernel.target, support_digest(), __version__, chosen)[:16]


Estimates = tuple[float | None, ...]


def ranked(analysis: Analysis, stage: str, budget: int, factor: float) -> list[tuple[Settings, Estimates]]:
    """Schedules for a contraction with their estimates in microseconds at each size.

    The best of every size come first, then the second best, and so on, until the budget of skeletons is used
    up. Raises MU5304 where no schedule is legal.
    """
    workloads = analysis.workloads[stage]
    held = analysis.held(stage)
    lists = [_diverse(w, _worthwhile(w, held, factor), budget) for w in dict.fromkeys(workloads)]
    if not any(lists):
        message = f"no legal schedule is known for stage '{stage}' of kernel '{analysis.kernel.name}'"
        raise DiagnosticError(Diagnostic("MU5304", message, helps=("leave settings out of the schedule",)))
    compiled, settings_of = workloads[0].compiled, workloads[0].settings
    chosen = _interleaved(lists, compiled, budget)
    others = _orders(workloads, chosen, budget)
    chosen += [s for s in others if _agrees(settings_of(s), held)]
    estimates = {s: [w.estimate(s).seconds * 1e6 for w in workloads] for s in chosen}
    least = [min(estimates[s][i] for s in chosen) for i in range(len(workloads))]
    return [
        (
            texts_of(settings_of(s)),
            tuple(t if t <= MEASURED * low else None for t, low in zip(estimates[s], least, strict=True)),
        )
        for s in chosen
    ]


def _agrees(settings: Chosen, held: Chosen) -> bool:
    """Whether a schedule has what is held; a switch that is off is left out of it."""
    return all(settings.get(name, value) == value for name, value in held.items())


def _worthwhile(workload: Workload[S], pins: Chosen, factor: float) -> list[Ranked[S]]:
    """Yield schedules whose estimate is within a factor of the best, the best first."""
    proposals = _proposals(workload, tuple(sorted(pins.items())))
    least = min((p.estimate.seconds for p in proposals), default=0.0)
    return [p for p in proposals if p.estimate.seconds <= factor * least]


@lru_cache(maxsize=64)
def _proposals(workload: Workload[S], pins: tuple[tuple[str, Attribute], ...]) -> tuple[Ranked[S], ...]:
    """Return all legal schedules; every contraction of a kernel is asked about while another one is tuned."""
    return tuple(workload.candidates(dict(pins)))


def _diverse(workload: Workload[S], proposals: Sequence[Ranked[S]], count: int) -> list[S]:
    """Return the most promising schedules: fast by the model, of several shapes, of at most `count`
    skeletons.

    Other divisions of the work of a skeleton come along; they cost no build.
    """
    left = [(p.estimate.seconds, workload.shape(p.schedule), p.schedule) for p in proposals]
    seen: dict[Hashable, int] = {}
    divisions: dict[S, set[Hashable]] = {}
    chosen: list[S] = []
    while left:
        best = min(left, key=lambda one: one[0] * ALIKE ** seen.get(one[1], 0))
        left.remove(best)
        _, shape, schedule = best
        skeleton, division = workload.compiled(schedule), workload.division(schedule)
        known = divisions.get(skeleton, set())
        if division in known or len(known) >= SPLITS or (not known and len(divisions) >= count):
            continue
        if not known:
            seen[shape] = seen.get(shape, 0) + 1
        divisions[skeleton] = known | {division}
        chosen.append(schedule)
    return chosen


def _interleaved(lists: Sequence[Sequence[S]], compiled: Callable[[S], S], budget: int) -> list[S]:
    """Yield the first of each list, then the second, and so on, until the budget of skeletons is spent."""
    chosen: dict[S, None] = {}
    skeletons: set[S] = set()
    for rank in range(max(map(len, lists))):
        for schedule in (schedules[rank] for schedules in lists if rank < len(schedules)):
            skeleton = compiled(schedule)
            if skeleton in skeletons or len(skeletons) < budget:
                skeletons.add(skeleton)
                chosen[schedule] = None
    return list(chosen)


def _orders(workloads: Sequence[Workload[S]], chosen: Sequence[S], budget: int) -> list[S]:
    """Yield the best of the chosen schedules with other orders of tiles, if it runs in several waves."""
    found: dict[S, None] = {}
    for schedule in chosen[: max(1, budget // REFINED)] if budget > 1 else ():
        several = next((w for w in workloads if w.estimate(schedule).waves > 1), None)
        for other in several.reordered(schedule) if several else ():
            if other not in chosen:
                found[other] = None
    return list(found)


def varied(ranked: Iterable[T], family: Callable[[T], Hashable], alike: int) -> list[T]:
    """Yield the same schedules, those of a family after its first `alike` last.

    Orders of tiles of one kernel differ by little, and would crowd out other kernels.
    """
    seen = Counter[Hashable]()
    first: list[T] = []
    rest: list[T] = []
    for item in ranked:
        seen[family(item)] += 1
        (first if seen[family(item)] <= alike else rest).append(item)
    return [*first, *rest]
