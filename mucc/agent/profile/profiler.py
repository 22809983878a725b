"""Analyse a program: its class by roofline, then the tools of that class."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from mucc.agent.core.analysis import Analysis, Limit
from mucc.agent.core.tasks import Task
from mucc.agent.profile.classes import classify
from mucc.agent.profile.commands import CommandFailed, run_mucc
from mucc.agent.profile.evidence import TIME, Evidence
from mucc.agent.profile.sources import Reading, Request, Source, sources
from mucc.agent.profile.stages import stages
from mucc.agent.profile.tools import advice, tools_for
from mucc.api.diagnostics import DiagnosticError
from mucc.api.json_types import DiagnosticJson
from mucc.api.library import (
    Manifest,
    ManifestError,
    MuccError,
    complete_dims,
    read_manifest,
)
from mucc.api.machine import get_card

P = ParamSpec("P")

LAUNCH = 2.5e-6
"""Seconds that a launch costs beside its work where the card's target does not say: what it is on an H200."""


@dataclass(frozen=True, slots=True)
class Study:
    """An analysis with its evidence."""

    analysis: Analysis
    evidence: Evidence
    ran: Sequence[str]
    """The names of the tools."""


def study(
    task: Task,
    program: str,
    library: str | None,
    *,
    device: str = "cuda",
    ms: float | None = None,
    dims: Mapping[str, int] | None = None,
    diagnostics: Sequence[DiagnosticJson] = (),
    time_limit: float = 60.0,
    readers: Sequence[Source] | None = None,
) -> Study:
    """Return the limit of a task, and the findings of tools about a program for it, with the evidence.

    `library` is what was built of the program, None where there is none; `ms` the measured time of a call in
    milliseconds (without it, counters tell), `diagnostics` what the build said (`Outcome.diagnostics`),
    `dims` the values of dims that the program leaves open. With `device="cpu"` nothing runs on a GPU. Each
    process that reads something may take `time_limit` seconds; `readers` stand in for all sources. What
    cannot be read is named in `missing`; nothing is raised.
    """
    started = time.monotonic()
    missing: list[str] = []
    manifest = _manifest(task, program, library, time_limit, missing)
    launch_us = _launch_us(task.card)
    kernels = len(manifest.kernels) if manifest else 1
    limit = classify(task.sol, kernels * launch_us, task.bound_ms and task.bound_ms * 1e3)
    if limit is None:
        missing.append("sol: there is no report of the speed of light, so the tools of all classes run")
    used = tools_for(limit or Limit.MIXED)
    asked = Request(
        program,
        library if manifest else None,
        task.target,
        task.card,
        _sizes(manifest, dims or {}, missing),
        dims or {},
        list(dict.fromkeys(metric for tool in used for metric in tool.metrics)),
        device,
        time_limit,
    )
    reading = _read(asked, list(sources()) if readers is None else readers)
    if library is None:
        missing.append("there is no library: only what the compiler says is read")
    if manifest and (other := _other_kernels(manifest, reading)):
        missing.append(other)
    evidence = Evidence(
        limit or Limit.MIXED,
        stages(manifest, reading, launch_us) if manifest else [],
        ms * 1e3 if ms else _counted_us(reading, launch_us),
        launch_us,
        [(str(d.get("code", "")), str(d.get("message", ""))) for d in diagnostics],
        reading.sol,
    )
    measured = evidence.measured_us
    gap = measured / (task.bound_ms * 1e3) if measured and task.bound_ms else None
    seconds = round(max(time.monotonic() - started - reading.waited, 0.0), 3)
    found = Analysis(evidence.limit, gap, advice(evidence), [*missing, *reading.missing], seconds)
    return Study(found, evidence, [tool.name for tool in used])


def _analysis_of(studied: Callable[P, Study]) -> Callable[P, Analysis]:
    def analyze(*args: P.args, **options: P.kwargs) -> Analysis:
        return studied(*args, **options).analysis

    return analyze


analyze = _analysis_of(study)
"""The same without the evidence."""


def _other_kernels(manifest: Manifest, reading: Reading) -> str:
    """Return the reason why a library does not belong to a program; empty where it does."""
    there, wanted = [k.name for k in manifest.kernels], [report.get("kernel", "") for report in reading.sol]
    if not wanted or sorted(there) == sorted(wanted):
        return ""
    return f"the library has kernels {', '.join(there)}, the program {', '.join(wanted)}: is it another's?"


def _counted_us(reading: Reading, launch_us: float) -> float | None:
    """Return the time of a call from counters, where it was not timed: kernels and launches."""
    times = [launch.counters[TIME] / 1e3 for launch in reading.launches if TIME in launch.counters]
    return sum(times) + len(times) * launch_us if times else None


def _manifest(
    task: Task, program: str, library: str | None, seconds: float, missing: list[str]
) -> Manifest | None:
    """Return the manifest of the library, or else of the program; where there is none, None, and the reason
    in `missing`.
    """
    try:
        if library is not None:
            return read_manifest(Path(library))
        said = run_mucc(["-", "--emit=manifest", f"--target={task.target}"], seconds, program)
        return Manifest.parse(said)
    except (MuccError, ManifestError, CommandFailed) as error:
        missing.append(f"manifest: {error}")
        return None


def _launch_us(card: str) -> float:
    """Return the overhead of a launch in microseconds, by the cost model of the card's target."""
    try:
        return float(get_card(card).target.facts.cost.get("launch", LAUNCH)) * 1e6
    except DiagnosticError:
        return LAUNCH * 1e6


def _sizes(
    manifest: Manifest | None, given: Mapping[str, int], missing: list[str]
) -> dict[str, dict[str, int]]:
    """Return the values of all dims of each kernel; kernels for which some are lacking are left out, and
    named.
    """
    sizes: dict[str, dict[str, int]] = {}
    for info in manifest.kernels if manifest else ():
        known = {name: value for name, value in given.items() if name in info.dims}
        try:
            sizes[info.name] = complete_dims(info, known)
        except DiagnosticError as error:
            missing.append(f"ncu: {info.name} is not run: {error.diagnostics[0].message}")
    return sizes


def _tried(reader: Source, asked: Request) -> Reading:
    """Read one source. An internal error in it loses this reading only."""
    try:
        return reader.read(asked)
    except Exception as error:
        return Reading(missing=[f"{reader.name}: {type(error).__name__}: {error}"])


def _read(asked: Request, readers: Sequence[Source]) -> Reading:
    """Read all sources in parallel."""
    with ThreadPoolExecutor(max(len(readers), 1)) as threads:
        waiting = [threads.submit(_tried, reader, asked) for reader in readers]
        found = [one.result() for one in waiting]
    return Reading(
        [x for r in found for x in r.launches],
        [x for r in found for x in r.functions],
        [x for r in found for x in r.resources],
        [x for r in found for x in r.explained],
        [x for r in found for x in r.sol],
        [x for r in found for x in r.missing],
        sum(r.waited for r in found),
    )
