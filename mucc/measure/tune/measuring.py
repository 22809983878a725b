"""Measuring candidates: each is checked and timed alone, then the best in turns; all is kept at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from mucc.database.records import Record, Run, Status, skeleton_text, support_digest, today
from mucc.database.store import Store
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.choosing import varied
from mucc.measure.tune.folder import Folder, build_failure
from mucc.measure.tune.plans import Candidate, Kernel, Plan, Size
from mucc.measure.tune.worker import Died, Refused, Worker
from mucc.process.gpu_lock import exclusive_gpu
from mucc.version import __version__

SWEEP_US = 20_000.0
"""Microseconds of launches that a candidate is timed by alone, …"""

FINAL_US = 60_000.0
"""… and each of the best in turns."""

FINALISTS = 8
"""Candidates in the last round at most, …"""

CLOSE = 1.12
"""… which took no more than so many times as long as the best, …"""

ALIKE = 2
"""… and so many of one kernel with other orders of tiles, while there are others."""

HEAT_US = 1e6
"""Microseconds under load before long launches take turns: a cold card runs at clocks that it does not hold,
and which kernel is fastest depends on them."""

TIMEOUT = 60.0
"""Seconds for a candidate; inputs and the reference get START besides."""

PREPARE = 300.0

SEED = 20

Sink = Callable[[list[Record]], None]
"""Keeps measurements: when it returns they are safe."""


class Measurer(Protocol):
    """What finds out how good candidates are; `Session` on a GPU."""

    card: str

    def sweep(self, kernel: Kernel, size: Size, candidate: Candidate, path: str) -> Record:
        """Check and time a candidate alone."""
        ...

    def final(self, kernel: Kernel, size: Size, finalists: Sequence[tuple[Candidate, str]]) -> list[Record]:
        """Time candidates in turns; none where that failed."""
        ...


@dataclass
class Session:
    """Measures through a worker; a candidate that kills or blocks it costs no more than itself."""

    worker: Worker
    card: str
    timeout: float = TIMEOUT
    sweep_us: float = SWEEP_US
    final_us: float = FINAL_US
    heat_us: float = HEAT_US
    support: str | None = None
    _prepared: tuple[int, str, str] | None = field(default=None, init=False)

    def sweep(self, kernel: Kernel, size: Size, candidate: Candidate, path: str) -> Record:
        """Check and time a candidate alone."""
        try:
            with exclusive_gpu():
                said = self._ask(kernel, size, do="try", path=os.path.abspath(path), budget_us=self.sweep_us)
        except Died as error:
            status = Status.TIMEOUT if error.timeout else Status.FAULT
            return self._record(kernel, size, candidate, Run(status, str(error)))
        except Refused as error:
            return self._record(kernel, size, candidate, Run(Status.FAULT, str(error)))
        times: list[float] = said["times"]
        run = Run(Status(said["status"]), said["reason"], None, len(times), False, said["error"])
        if times:
            run = run._replace(time_us=median(times))
        return self._record(kernel, size, candidate, run)

    def _record(self, kernel: Kernel, size: Size, candidate: Candidate, run: Run) -> Record:
        return record_of(kernel, size, candidate, self.card, run, self.support)

    def final(self, kernel: Kernel, size: Size, finalists: Sequence[tuple[Candidate, str]]) -> list[Record]:
        """Time candidates in turns; none where that failed, which leaves what the sweep found."""
        paths = [os.path.abspath(path) for _, path in finalists]
        try:
            with exclusive_gpu():
                budgets = {"budget_us": self.final_us, "heat_us": self.heat_us}
                said = self._ask(kernel, size, do="race", paths=paths, **budgets)
        except (Died, Refused):
            return []
        return [
            self._record(kernel, size, candidate, Run(Status.GOOD, "", median(times), len(times), True))
            for (candidate, _), times in zip(finalists, said["times"], strict=True)
        ]

    def _ask(self, kernel: Kernel, size: Size, **request: object) -> dict[str, Any]:
        """Ask about a kernel at a size, for which the process is made ready first."""
        key = (self.worker.starts, kernel.digest, size.text)
        if self._prepared != key or not self.worker.is_running:
            self._prepare(kernel, size)
            self._prepared = (self.worker.starts, kernel.digest, size.text)
        return self.worker.ask(self.timeout, **request)

    def _prepare(self, kernel: Kernel, size: Size) -> None:
        """Have inputs and the reference made. Raises MU5311."""
        try:
            self.worker.ask(
                PREPARE,
                do="prepare",
                text=kernel.text,
                kernel=kernel.name,
                target=kernel.target,
                dims=dict(size.dims),
                seed=SEED,
            )
        except (Died, Refused) as error:
            message = f"{kernel.name} cannot be measured at {size.text}: no inputs or no reference: {error}"
            raise DiagnosticError(Diagnostic("MU5311", message)) from None


def record_of(
    kernel: Kernel, size: Size, candidate: Candidate, card: str, run: Run, support: str | None = None
) -> Record:
    """Return the record of an outcome; `support` is that of the library, by default this mucc's."""
    return Record(
        kernel.target,
        card,
        kernel.digest,
        kernel.name,
        size.dims,
        kernel.stages(size, candidate.choice),
        run,
        support or support_digest(),
        __version__,
        today(),
    )


def finalists(records: Iterable[Record], count: int = FINALISTS, close: float = CLOSE) -> list[Record]:
    """Those worth a last round, the best first: good, and close to the best. None where only one is.

    Orders of tiles of one kernel differ by little, so the best of other kernels come before a third of one.
    """
    good = sorted((r for r in records if r.is_good), key=lambda r: r.time_us)
    near = [r for r in good if r.time_us <= close * good[0].time_us]
    ranked = varied(near, lambda r: skeleton_text(r.choice), ALIKE)
    chosen = sorted(ranked[:count], key=lambda r: r.time_us)
    return chosen if len(chosen) > 1 else []


def entrants_of(records: Mapping[str, Record]) -> list[str]:
    """Return the ids of the candidates that take part in the last round."""
    ids = {record.key: id for id, record in records.items()}
    return [ids[r.key] for r in finalists(records.values())]


def after_final(before: Iterable[Record], raced: Sequence[Record]) -> list[Record]:
    """Yield the records to keep after a last round: its times, and earlier ones marked as superseded."""
    from dataclasses import replace

    keys = {r.key for r in raced}
    errors = {r.key: r.run.error for r in before}
    stale = [replace(r, run=r.run._replace(final=False)) for r in before if r.run.final and r.key not in keys]
    return [*(replace(r, run=r.run._replace(error=errors.get(r.key))) for r in raced), *stale]


def check_card(target: str, arch: str) -> None:
    """Raise MU5312 where libraries for a target do not run on a GPU of that architecture."""
    if arch != target.rstrip("af"):
        message = f"the GPU of this machine is {arch}, the libraries are for {target}"
        raise DiagnosticError(Diagnostic("MU5312", message, helps=("measure on a machine with such a GPU",)))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far measuring is: one record more of a plan."""

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
    timeout: float = TIMEOUT,
    measured: Callable[[Progress], None] = lambda _: None,
) -> Folder:
    """Measure what a folder holds libraries for, and has no measurement of on this card; all with `again`.

    Each measurement goes into the folder and into the database (`database` names another file) before the
    next begins. Needs torch and a GPU, and no compiler. Raises DiagnosticError: MU5301 where there is no
    GPU, MU5302 or MU5303 for the folder, MU5305 to MU5308 for the database, MU5312 for another GPU than the
    plan's.
    """
    place = Folder(folder)
    plan = place.plan()
    with worker or Worker() as child, Store(database) as store:
        said = child.hello()
        check_card(plan.target, said["arch"])
        session = Session(child, said["card"], timeout, support=plan.support)

        def keep(records: list[Record]) -> None:
            place.add(records)
            if keep_in_database:
                store.add(records)

        measure_plan(plan, place, session, keep, again=again, measured=measured)
    return place


def measure_plan(
    plan: Plan,
    place: Folder,
    measurer: Measurer,
    keep: Sink,
    *,
    again: bool = False,
    measured: Callable[[Progress], None] = lambda _: None,
) -> None:
    """`measure` with any measurer."""
    known = {r.key: r for r in place.records()}
    work = [
        (kernel, size, [c for c in kernel.candidates if c.estimates[i] is not None])
        for kernel in plan.kernels
        for i, size in enumerate(kernel.sizes)
    ]
    total, done = sum(len(candidates) for *_, candidates in work), 0
    problems: list[Diagnostic] = []
    for kernel, size, candidates in work:
        here: dict[str, Record] = {}
        fresh = False
        try:
            for i, candidate in enumerate(candidates):
                earlier = {} if again else known
                record, new = _measured(plan, kernel, size, candidate, place, measurer, earlier)
                if record is not None:
                    here[candidate.id] = record
                if record is not None and new:
                    keep([record])
                    measured(Progress(kernel, size, candidate, record, done + i + 1, total))
                fresh = fresh or new
            if fresh:
                paths = {c.id: path for c in candidates if (path := place.library(c))}
                race(kernel, size, {c.id: c for c in candidates}, here, paths, measurer, keep)
        except DiagnosticError as error:
            if error.diagnostics[0].code != "MU5311":
                raise
            problems.extend(error.diagnostics)  # the other sizes go on
        done += len(candidates)
    if problems:
        raise DiagnosticError(problems)


def _measured(
    plan: Plan,
    kernel: Kernel,
    size: Size,
    candidate: Candidate,
    place: Folder,
    measurer: Measurer,
    known: Mapping[tuple[str, ...], Record],
) -> tuple[Record | None, bool]:
    """Return a candidate's record at a size, and whether it is new; None if it was not built yet."""
    if (path := place.library(candidate)) is None:
        if (failure := place.failure(candidate)) is None:
            return None, False
        record = record_of(kernel, size, candidate, "", build_failure(failure), plan.support)
        return record, record.key not in known
    key = record_of(kernel, size, candidate, measurer.card, Run(Status.GOOD), plan.support).key
    if key in known:
        return known[key], False
    return measurer.sweep(kernel, size, candidate, path), True


def race(
    kernel: Kernel,
    size: Size,
    candidates: Mapping[str, Candidate],
    here: Mapping[str, Record],
    paths: Mapping[str, str],
    measurer: Measurer,
    keep: Sink,
) -> list[Record]:
    """Run the last round among the best candidates, by id, and return what it found."""
    entrants = [(candidates[id], paths[id]) for id in entrants_of(here) if id in paths]
    if len(entrants) < 2:
        return []
    raced = measurer.final(kernel, size, entrants)
    if raced:
        keep(after_final(list(here.values()), raced))
    return raced
