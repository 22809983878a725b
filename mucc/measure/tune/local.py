"""Tuning on one machine: its compilers, its GPU, its database."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mucc.build.pool import Pool
from mucc.database.records import Choice, Record, Settings, support_digest
from mucc.database.store import Store
from mucc.measure.tune.analysis import analyse
from mucc.measure.tune.building import Built, Toolset, build_each
from mucc.measure.tune.folder import Result, result_of
from mucc.measure.tune.measuring import TIMEOUT, Session, check_card
from mucc.measure.tune.plans import Candidate, Kernel, Program
from mucc.measure.tune.search import Limits, Search, Silent, Watcher
from mucc.measure.tune.worker import Worker
from mucc.process import reaper


@dataclass(frozen=True, slots=True)
class Outcome:
    """What tuning found for a kernel: the best choice for its sizes together, and the results of each.

    `pins` is what the program's own schedules say.
    """

    kernel: Kernel
    choice: Choice
    results: tuple[Result, ...]
    pins: Mapping[str, Settings]


def tune(
    program: Program,
    *,
    target: str = "sm_90a",
    limits: Limits = Limits(),  # noqa: B008  # a tuple of numbers
    tools: Toolset | None = None,
    jobs: int | None = None,
    keep_pins: bool = False,
    again: bool = False,
    database: str | None = None,
    timeout: float = TIMEOUT,
    worker: Worker | None = None,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Search for the best schedules of a program's kernels, and keep all that is measured.

    What the database has of this card is not measured again, unless `again`. Raises DiagnosticError for the
    program, its dims and the toolchain, and MU5301, MU5305 to MU5308, MU5311, MU5312.
    """
    tools = tools or Toolset()
    analyse(program, target, keep_pins=keep_pins)  # errors in the program come before those of the machine
    outcomes: list[Outcome] = []
    with (
        worker or Worker() as child,
        Store(database) as store,
        reaper.temporary_folder(tempfile.gettempdir()) as folder,
    ):
        said = child.hello()
        check_card(target, said["arch"])
        card = said["card"]

        def build(kernel: Kernel, candidates: Sequence[Candidate]) -> Iterator[Built]:
            if candidates:
                with Pool(jobs) as pool:
                    yield from build_each(pool, [(kernel, c) for c in candidates], tools)

        def place(built: Built) -> str:
            path = os.path.join(folder, f"{built.candidate.id}.so")
            with open(path, "wb") as file:
                file.write(built.data or b"")
            return path

        for analysis in analyse(program, target, keep_pins=keep_pins, card=card):
            digest = analysis.kernel.digest
            earlier = [] if again else store.of_kernel(target, digest)
            known = {r.key: r for r in earlier if r.support == support_digest()}
            search = Search(
                Session(child, card, timeout), build, place, store.add, limits, watcher or Silent(), known
            )
            kernel, choice = search.tune(analysis)
            outcomes.append(outcome_of(kernel, choice, card, search.known.values(), analysis.pinned_texts))
    return outcomes


def outcome_of(
    kernel: Kernel, choice: Choice, card: str, records: Iterable[Record], pins: Mapping[str, Settings]
) -> Outcome:
    """Return an outcome from all records of a search."""
    found = list(records)
    results = tuple(result_of(kernel, size, card, found) for size in kernel.sizes)
    return Outcome(kernel, choice, results, pins)
