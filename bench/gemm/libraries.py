"""The libraries of a run: for each case the schedules worth measuring, and what the compiler would choose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.gemm.cases import Case
from mucc.diagnostics import DiagnosticError, Source
from mucc.passes.select_schedule import schedule_settings
from mucc.target import get_target
from mucc.tune import Program, plan, results
from mucc.tune.analysis import Analysis, analyse
from mucc.tune.choosing import candidate_id
from mucc.tune.folder import Folder
from mucc.tune.plans import Candidate, Kernel, Plan, Size, compact
from mucc.tune.records import Choice, Record, canonical, support_digest
from mucc.version import __version__

TARGET = "sm_90a"


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
        made = plan(program_of(case), target=TARGET, budget=limit)
        (analysis,) = analyse(program_of(case), TARGET, keep_pins=False)
        (kernel,) = made.kernels
        kernels.append(dataclasses.replace(kernel, candidates=_with_defaults(kernel.candidates, analysis)))
    return Plan(TARGET, __version__, support_digest(), tuple(kernels))


def known_plan(folder: str, cases: Sequence[Case]) -> Plan | None:
    """The plan that the folder has, if it is for these cases and for mucc as it is."""
    try:
        known = Folder(folder).plan()
    except DiagnosticError:
        return None
    same = [k.name for k in known.kernels] == [c.name for c in cases] and known.support == support_digest()
    return known if same else None


def _with_defaults(candidates: Sequence[Candidate], analysis: Analysis) -> tuple[Candidate, ...]:
    """The candidates and what the compiler would choose at each size, to be measured there at least."""
    target = get_target(analysis.kernel.target)
    found = {c.id: c for c in candidates}
    stage = analysis.stages[0]
    for i, size in enumerate(analysis.kernel.sizes):
        choice = default_choice(analysis, i)
        name = candidate_id(analysis.kernel, choice)
        known = found.get(name) or Candidate(name, stage, choice, (None,) * len(analysis.kernel.sizes))
        problem = analysis.problems[stage][i]
        seconds = target.estimate(problem, target.default_schedule(problem)).seconds
        estimates = (*known.estimates[:i], known.estimates[i] or seconds * 1e6, *known.estimates[i + 1 :])
        assert size.dims == analysis.kernel.sizes[i].dims
        found[name] = dataclasses.replace(known, estimates=estimates)
    return tuple(found.values())


def default_choice(analysis: Analysis, size: int) -> Choice:
    """What the compiler chooses by itself for one of the sizes."""
    target = get_target(analysis.kernel.target)
    return {
        stage: schedule_settings(target.default_schedule(analysis.problems[stage][size]))
        for stage in analysis.kernel.bodies
    }


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
            known = library(_choice(default)) if default else None
            dims = result.size.dims
            name = f"{dims['M']}x{dims['N']}x{dims['K']}"
            found[result.kernel.name, name] = Found(tuned, known, len(result.records))
    return found


def _choice(record: Record) -> Choice:
    return record.choice


def _index(analysis: Analysis, size: Size) -> int:
    return [s.dims for s in analysis.kernel.sizes].index(size.dims)
