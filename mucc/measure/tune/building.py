"""Build the libraries of a plan's candidates in parallel, from parts, through the cache. Needs no GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from mucc.build.artefact import Artefact, Request
from mucc.build.artefact import build as build_program
from mucc.build.pool import Cancelled, Pool
from mucc.build.progress import Display
from mucc.diagnostics.core import DiagnosticError
from mucc.measure.tune.folder import Failure, Folder
from mucc.measure.tune.plans import Candidate, Kernel, Plan, compact

REJECTED = "MU5110"
"""A compiler refused the code: of all that goes wrong in a toolchain, this alone happens again."""


class Built(NamedTuple):
    """A candidate with its library, or why there is none. `notes` are what the compilers warned about."""

    kernel: Kernel
    candidate: Candidate
    data: bytes | None
    failure: Failure | None = None
    notes: str = ""


class Toolset(NamedTuple):
    """How libraries are built; see `mucc.build.artefact.Request`."""

    nvcc: str | None = None
    cached: bool = True
    timeout: float | None = None


def build(
    plan: Plan,
    folder: str | os.PathLike[str],
    jobs: int | None = None,
    *,
    tools: Toolset | None = None,
    display: Display | None = None,
    built: Callable[[Built], None] = lambda _: None,
) -> Folder:
    """Build all libraries of a plan into a folder; what is there already is left as it is.

    At most `jobs` compilers run at a time, by default as cores and memory allow. A candidate that cannot be
    built is noted in the folder, and costs nothing but itself. Raises DiagnosticError where the toolchain is
    missing (MU5101 and the like), or the folder cannot be written (MU5308).
    """
    place = Folder(folder)
    place.write_plan(plan)
    wanted = [
        (kernel, candidate)
        for kernel in plan.kernels
        for candidate in kernel.candidates
        if place.library(candidate) is None and not _failed_for_good(place, candidate)
    ]
    with Pool(jobs, display=display) as pool:
        for outcome in build_each(pool, wanted, tools or Toolset()):
            if outcome.data is not None:
                place.add_library(outcome.candidate, outcome.data)
            elif outcome.failure is not None:
                place.add_failure(outcome.candidate, outcome.failure)
            built(outcome)
    return place


def _failed_for_good(folder: Folder, candidate: Candidate) -> bool:
    failure = folder.failure(candidate)
    return failure is not None and failure.lasting


def build_each(pool: Pool, wanted: Iterable[tuple[Kernel, Candidate]], tools: Toolset) -> Iterator[Built]:
    """Build candidates side by side; each comes in its turn as soon as it is there."""
    from mucc.build.toolchain.discover import MISSING

    def make(item: tuple[Kernel, Candidate]) -> Artefact:
        return build_program(request(*item, tools), pool=pool)

    items = list(wanted)
    outcomes = pool.map(make, items, lambda item: label(*item))
    for (kernel, candidate), outcome in zip(items, outcomes, strict=True):
        try:
            artefact = outcome.get()
        except DiagnosticError as error:
            if any(d.code in MISSING for d in error.diagnostics):
                raise  # it is missing for all that the cache does not have
            yield Built(kernel, candidate, None, failure_of(error))
            continue
        except Cancelled:
            raise
        except Exception as error:  # a defect of mucc in one candidate is no reason to lose the others
            reason = f"MU9001: internal error: {type(error).__name__}: {error}"
            yield Built(kernel, candidate, None, Failure(reason, lasting=False))
            continue
        notes = "; ".join(str(d.message) for d in artefact.warnings)
        yield Built(kernel, candidate, artefact.data, notes=notes)


def request(kernel: Kernel, candidate: Candidate, tools: Toolset) -> Request:
    """Return the build request of a candidate's library."""
    return Request(
        kernel.source(candidate.choice).text.encode(),
        label(kernel, candidate),
        "so",
        kernel.target,
        nvcc=tools.nvcc,
        cached=tools.cached,
        timeout=tools.timeout,
        tuned=False,
    )


def label(kernel: Kernel, candidate: Candidate) -> str:
    """Return the name under which a candidate's build is reported."""
    return f"{kernel.name} {compact(candidate.settings)}"


def failure_of(error: DiagnosticError) -> Failure:
    """Why a candidate could not be built, in a line."""
    first = error.diagnostics[0]
    lasting = first.code == REJECTED or not first.code.startswith("MU5")
    return Failure(f"{first.code}: {first.message}", lasting)
