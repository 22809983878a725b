"""Tuning: compilers and GPUs of this machine or of a cluster, the database of this machine."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mucc.build.pool import Cancelled, Pool, awaited
from mucc.database.records import Choice, Record, Settings, support_digest
from mucc.database.store import Store
from mucc.measure.tune.analysis import Analysis, analyse
from mucc.measure.tune.building import Built, Toolset, build_each
from mucc.measure.tune.folder import Result, result_of
from mucc.measure.tune.gpus import Gpus
from mucc.measure.tune.measuring import TIMEOUT
from mucc.measure.tune.opening import opened
from mucc.measure.tune.plans import Candidate, Kernel, Program
from mucc.measure.tune.search import Limits, Search, Silent, Taking, Watcher
from mucc.measure.tune.where import Where
from mucc.measure.tune.worker import Worker
from mucc.process import reaper
from mucc.target import DEFAULT_TARGET


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
    target: str = DEFAULT_TARGET,
    limits: Limits = Limits(),  # noqa: B008  # a tuple of numbers
    tools: Toolset | None = None,
    jobs: int | None = None,
    keep_pins: bool = False,
    again: bool = False,
    database: str | None = None,
    timeout: float = TIMEOUT,
    worker: Worker | None = None,
    where: Where = Where(),  # noqa: B008  # a tuple
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Search for the best schedules of a program's kernels, and keep all that is measured.

    What the database has of this card is not measured again, unless `again`. Raises DiagnosticError for the
    program, its dims and the toolchain, and MU5301, MU5305 to MU5308, MU5311, MU5312, and for
    several GPUs (`where`) those of `opening.opened` and MU5505.
    """
    tools = tools or Toolset()
    # Errors in the program come before those of the machine.
    count = len(analyse(program, target, keep_pins=keep_pins))
    with (
        Store(database) as store,
        opened(where, target, timeout, worker=worker) as gpus,
        reaper.temporary_folder(tempfile.gettempdir()) as folder,
    ):
        side_by_side = min(count, gpus.count)
        if side_by_side > 1:
            jobs = max((jobs or Pool().cores) // side_by_side, 1)
        one = _Tuning(gpus, Keeper(store), folder, tools, jobs, limits, Taking(watcher or Silent()), again)
        analyses = analyse(program, target, keep_pins=keep_pins, card=gpus.card)
        if side_by_side == 1:
            return [one.tune(analysis) for analysis in analyses]
        threads = ThreadPoolExecutor(side_by_side, "mucc-kernel")
        try:
            return [awaited(future) for future in [threads.submit(one.tune, a) for a in analyses]]
        finally:  # after an error, searches end with the GPUs
            one.stop.set()
            threads.shutdown(wait=False, cancel_futures=True)


class Keeper:
    """The one owner of the database: threads of searches store and read through it, one at a time."""

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()

    def add(self, records: list[Record]) -> None:
        with self._lock:
            self._store.add(records)

    def of_kernel(self, target: str, kernel: str) -> list[Record]:
        with self._lock:
            return self._store.of_kernel(target, kernel)


@dataclass
class _Tuning:
    """What the searches for several kernels share."""

    gpus: Gpus
    store: Keeper
    folder: str
    tools: Toolset
    jobs: int | None
    limits: Limits
    watcher: Watcher
    again: bool
    stop: threading.Event = field(default_factory=threading.Event)

    def tune(self, analysis: Analysis) -> Outcome:
        """Search for the schedules of a kernel."""
        target, digest = analysis.kernel.target, analysis.kernel.digest
        earlier = [] if self.again else self.store.of_kernel(target, digest)
        known = {r.key: r for r in earlier if r.support == support_digest()}
        search = Search(self.gpus, self._build, self._place, self.store.add, self.limits, self.watcher, known)
        kernel, choice = search.tune(analysis)
        return outcome_of(kernel, choice, self.gpus.card, search.known.values(), analysis.pinned_texts)

    def _build(self, kernel: Kernel, candidates: Sequence[Candidate]) -> Iterator[Built]:
        if not candidates:
            return
        with Pool(self.jobs) as pool:
            for built in build_each(pool, [(kernel, c) for c in candidates], self.tools):
                if self.stop.is_set():
                    raise Cancelled(f"{kernel.name}: the search has ended")
                yield built

    def _place(self, built: Built) -> str:
        path = os.path.join(self.folder, f"{built.candidate.id}.so")
        with open(path, "wb") as file:
            file.write(built.data or b"")
        return path


def outcome_of(
    kernel: Kernel, choice: Choice, card: str, records: Iterable[Record], pins: Mapping[str, Settings]
) -> Outcome:
    """Return an outcome from all records of a search."""
    found = list(records)
    results = tuple(result_of(kernel, size, card, found) for size in kernel.sizes)
    return Outcome(kernel, choice, results, pins)
