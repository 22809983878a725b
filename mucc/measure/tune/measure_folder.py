"""Measure the libraries of a folder: check and time each alone, then time the best in turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mucc.build.pool import awaited
from mucc.database.records import Record, Run, Status
from mucc.database.store import Store
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.folder import Folder, build_failure
from mucc.measure.tune.gpus import Gpus, Lost
from mucc.measure.tune.measuring import TIMEOUT, Sink, after_final, entrants_of, record_of
from mucc.measure.tune.opening import opened
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Size
from mucc.measure.tune.where import Where
from mucc.measure.tune.worker import Worker


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of measuring a plan: one further record."""

    kernel: Kernel
    size: Size
    candidate: Candidate
    record: Record
    done: int
    total: int


def measure(
    folder: str | os.PathLike[str],
    *,
    again: bool = False,
    database: str | None = None,
    keep_in_database: bool = True,
    worker: Worker | None = None,
    where: Where = Where(),  # noqa: B008  # a tuple
    timeout: float = TIMEOUT,
    measured: Callable[[Progress], None] = lambda _: None,
) -> Folder:
    """Measure what a folder holds libraries for, and has no measurement of on this card; all with `again`.

    Each measurement goes into the folder and into the database (`database` names another file) before the
    next begins. Needs torch and a GPU, and no compiler; `where` names several GPUs. Raises DiagnosticError:
    MU5301 where there is no GPU, MU5302 or MU5303 for the folder, MU5305 to MU5308 for the database, MU5312
    for another GPU than the plan's, MU5505 and MU5506 for several.
    """
    place = Folder(folder)
    plan = place.plan()
    with Store(database) as store, opened(where, plan.target, timeout, plan.support, worker) as gpus:

        def keep(records: list[Record]) -> None:
            place.add(records)
            if keep_in_database:
                store.add(records)

        measure_plan(plan, place, gpus, keep, again=again, measured=measured)
    return place


def measure_plan(
    plan: Plan,
    place: Folder,
    gpus: Gpus,
    keep: Sink,
    *,
    again: bool = False,
    measured: Callable[[Progress], None] = lambda _: None,
) -> None:
    """`measure` on any GPUs: problems are measured side by side, and kept by one thread at a time."""
    problems = [
        (kernel, size, [c for c in kernel.candidates if c.estimates[i] is not None])
        for kernel in plan.kernels
        for i, size in enumerate(kernel.sizes)
    ]
    known = {r.key: r for r in place.records()}
    total = sum(len(candidates) for *_, candidates in problems)
    measuring = _Measuring(plan, place, gpus, keep, measured, {} if again else known, total)
    failed: list[Diagnostic] = []
    threads = ThreadPoolExecutor(gpus.count, "mucc-problem")
    try:
        # One GPU needs no other thread than this one, which signals interrupt.
        several = gpus.count > 1
        outcomes = [threads.submit(measuring.problem, *problem) for problem in problems] if several else []
        for i, problem in enumerate(problems):
            try:
                awaited(outcomes[i]) if outcomes else measuring.problem(*problem)
            except DiagnosticError as error:
                if error.diagnostics[0].code != "MU5311":
                    raise
                failed.extend(error.diagnostics)  # the other sizes go on
    finally:  # after an error, threads end with the GPUs
        measuring.stop.set()
        threads.shutdown(wait=False, cancel_futures=True)
    if failed:
        raise DiagnosticError(failed)


@dataclass
class _Measuring:
    """What the threads of problems share. `known` are records that are not made again."""

    plan: Plan
    place: Folder
    gpus: Gpus
    keep: Sink
    measured: Callable[[Progress], None]
    known: Mapping[tuple[str, ...], Record]
    total: int
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def problem(self, kernel: Kernel, size: Size, candidates: Sequence[Candidate]) -> None:
        """Measure the candidates of a kernel at a size, and run the last round if something is new."""
        here: dict[str, Record] = {}
        fresh, left = False, len(candidates)
        try:
            for candidate in candidates:
                record, new = self._record(kernel, size, candidate)
                if self.stop.is_set():
                    return
                left -= 1
                with self.lock:
                    self.done += 1
                    if record is not None:
                        here[candidate.id] = record
                    if record is not None and new:
                        self.keep([record])
                        self.measured(Progress(kernel, size, candidate, record, self.done, self.total))
                fresh = fresh or new
        finally:
            with self.lock:
                self.done += left
        if fresh:
            self._last_round(kernel, size, candidates, here)

    def _last_round(
        self, kernel: Kernel, size: Size, candidates: Sequence[Candidate], here: Mapping[str, Record]
    ) -> None:
        paths = {c.id: path for c in candidates if (path := self.place.library(c))}
        by_id = {c.id: c for c in candidates}
        entrants = [(by_id[id], paths[id]) for id in entrants_of(here) if id in paths]
        if len(entrants) < 2:
            return
        try:
            raced = awaited(self.gpus.submit(_key(kernel, size), lambda m: m.final(kernel, size, entrants)))
        except Lost:
            return  # what the sweep found stays
        if raced and not self.stop.is_set():
            with self.lock:
                self.keep(after_final(list(here.values()), raced))

    def _record(self, kernel: Kernel, size: Size, candidate: Candidate) -> tuple[Record | None, bool]:
        """Return a candidate's record at a size, and whether it is new; None if it was not built yet."""
        support = self.plan.support
        if (path := self.place.library(candidate)) is None:
            if (failure := self.place.failure(candidate)) is None:
                return None, False
            record = record_of(kernel, size, candidate, "", build_failure(failure), support)
            return record, record.key not in self.known
        key = record_of(kernel, size, candidate, self.gpus.card, Run(Status.GOOD), support).key
        if key in self.known:
            return self.known[key], False
        sweep = self.gpus.submit(_key(kernel, size), lambda m: m.sweep(kernel, size, candidate, path))
        try:
            return awaited(sweep), True
        except Lost as error:
            run = Run(Status.FAULT, f"the process or machine that measured it was lost: {error}")
            return record_of(kernel, size, candidate, self.gpus.card, run, support), True


def _key(kernel: Kernel, size: Size) -> tuple[str, str]:
    return kernel.digest, size.text
