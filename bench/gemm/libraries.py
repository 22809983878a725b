"""The libraries of a run: for each case the schedules worth measuring, and what the compiler would choose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from math import exp
from operator import mul
from typing import NamedTuple

from bench.gemm.cases import Case
from mucc.database.records import Choice, Settings, support_digest
from mucc.diagnostics import DiagnosticError, Source
from mucc.dialects.mu.settings import texts_of
from mucc.files.json_text import canonical
from mucc.kernels.gemm.scheduling.config import Schedule
from mucc.kernels.gemm.settings import settings_of
from mucc.kernels.workload import Workload
from mucc.measure.tune.analysis import Analysis, analyse
from mucc.measure.tune.choosing import candidate_id, varied
from mucc.measure.tune.folder import Folder
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Size, compact
from mucc.tune import Program, results
from mucc.version import __version__

TARGET = "sm_90a"

LONG, TRIED, ORDERS = 160, 16, 2
"""How many schedules of the model's are looked at for a size, and how many are measured; the best so many
orders of tiles of each skeleton come before others of any."""

FACTOR = 1.5
"""Skeletons that other sizes asked for are measured too where they should take no longer than so many times
the best: they are there anyway."""

FALL, LEFT = 0.05, 0.25
"""A skeleton's worth falls by a factor of e for each 5 % that it is slower than the best; where a perfect one
is chosen, others keep a quarter of theirs."""


class Library(NamedTuple):
    """A library that was right, and how its schedules are written."""

    path: str
    schedule: str


class Found(NamedTuple):
    """What a folder holds for one case and shape."""

    tuned: Library
    default: Library | None
    measured: int
    """Schedules that were measured."""


def program_of(case: Case) -> Program:
    """A case as the tuner takes it."""
    return Program(Source(f"{case.name}.mcu", case.program), [s.dims for s in case.shapes])


def plan_of(cases: Sequence[Case], budget: int | Mapping[str, int]) -> Plan:
    """What to build: for each case what the model likes best, and what the compiler would choose.

    `budget` is the number of skeletons for each case, or such a number by group.
    """
    kernels: list[Kernel] = []
    for case in cases:
        limit = budget if isinstance(budget, int) else budget[case.group]
        (analysis,) = analyse(program_of(case), TARGET, keep_pins=False)
        kernels.append(dataclasses.replace(analysis.kernel, candidates=candidates_of(analysis, limit)))
    return Plan(TARGET, __version__, support_digest(), tuple(kernels))


def candidates_of(analysis: Analysis, budget: int) -> tuple[Candidate, ...]:
    """Schedules for all sizes, of few skeletons: each is measured where the model thinks well of it.

    Programs of one contraction only.
    """
    (stage,) = analysis.stages
    workloads: Sequence[Workload[Schedule]] = analysis.workloads[stage]
    lists = [{c.schedule: c.estimate.seconds for c in islice(w.candidates(), LONG)} for w in workloads]
    chosen = skeletons(lists, budget)
    estimates: dict[Schedule, list[float | None]] = {}
    for i, (workload, seconds) in enumerate(zip(workloads, lists, strict=True)):
        kept = varied((s for s in seconds if s.compiled in chosen), lambda s: s.compiled, ORDERS)[:TRIED]
        kept += others(workload, chosen - {s.compiled for s in kept}, FACTOR * min(seconds.values()))
        default = workload.default()
        for schedule in dict.fromkeys([default, *kept]):
            found = estimates.setdefault(schedule, [None] * len(workloads))
            found[i] = 1e6 * (seconds.get(schedule) or workload.estimate(schedule).seconds)
    made: list[Candidate] = []
    for schedule, times in estimates.items():
        choice = {stage: texts_of(settings_of(schedule))}
        made.append(Candidate(candidate_id(analysis.kernel, choice), stage, choice, tuple(times)))
    return tuple(made)


def others(workload: Workload[Schedule], chosen: set[Schedule], most: float) -> list[Schedule]:
    """Those of the skeletons that are legal for a problem and should take no more than so many seconds."""
    legal = [s for s in chosen if workload.is_legal(s)]
    return sorted((s for s in legal if workload.estimate(s).seconds <= most), key=str)


def skeletons(lists: Sequence[Mapping[Schedule, float]], budget: int) -> set[Schedule]:
    """Skeletons that serve many sizes well, each size by several.

    `lists` has the seconds of schedules for each size. What a skeleton is worth at a size is how near it
    comes to the best there, and less where others are chosen already that come as near.
    """
    worth: dict[Schedule, list[float]] = {}
    for i, seconds in enumerate(lists):
        least = min(seconds.values())
        for schedule, time in seconds.items():
            row = worth.setdefault(schedule.compiled, [0.0] * len(lists))
            row[i] = max(row[i], exp((1 - time / least) / FALL))
    chosen: set[Schedule] = set()
    weights = [1.0] * len(lists)
    while len(chosen) < min(budget, len(worth)):
        rest = (s for s in worth if s not in chosen)
        best = max(rest, key=lambda s: sum(map(mul, weights, worth[s])))
        chosen.add(best)
        weights = [w * (1 - (1 - LEFT) * x) for w, x in zip(weights, worth[best], strict=True)]
    return chosen


def known_plan(folder: str, cases: Sequence[Case]) -> Plan | None:
    """The plan that the folder has, if it is for these cases and for mucc as it is."""
    try:
        known = Folder(folder).plan()
    except DiagnosticError:
        return None
    same = [k.name for k in known.kernels] == [c.name for c in cases] and known.support == support_digest()
    return known if same else None


def default_choice(analysis: Analysis, size: int) -> Choice:
    """What the compiler chooses by itself for one of the sizes."""
    found: dict[str, Settings] = {}
    for stage in analysis.kernel.bodies:
        workload = analysis.workloads[stage][size]
        found[stage] = texts_of(workload.settings(workload.default()))
    return found


def libraries(folder: str, cases: Sequence[Case]) -> dict[tuple[str, str], Found]:
    """By case and shape, where a library was right: the fastest, and the compiler's choice."""
    place = Folder(folder)
    analyses = {a.kernel.digest: a for c in cases for a in analyse(program_of(c), TARGET, keep_pins=False)}
    found: dict[tuple[str, str], Found] = {}
    for result in results(place):
        if (analysis := analyses.get(result.kernel.digest)) is None or result.best is None:
            continue
        paths = {canonical(c.choice): place.library(c) for c in result.kernel.candidates}

        def library(choice: Choice, paths: dict[str, str | None] = paths) -> Library | None:
            path = paths.get(canonical(choice))
            return Library(path, "; ".join(compact(s) for s in choice.values())) if path else None

        wanted = default_choice(analysis, _index(analysis, result.size))
        default = next((r for r in result.records if r.choice == wanted and r.is_good), None)
        if tuned := library(result.best.choice):
            known = library(default.choice) if default else None
            dims = result.size.dims
            name = f"{dims['M']}x{dims['N']}x{dims['K']}"
            found[result.kernel.name, name] = Found(tuned, known, len(result.records))
    return found


def _index(analysis: Analysis, size: Size) -> int:
    return [s.dims for s in analysis.kernel.sizes].index(size.dims)
