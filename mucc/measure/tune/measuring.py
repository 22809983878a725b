"""Measure candidates: check and time each alone, then time the best in turns; results are stored at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

from mucc.database.records import Record, Run, Status, skeleton_text, support_digest, today
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.choosing import varied
from mucc.measure.tune.plans import Candidate, Kernel, Size
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
            with exclusive_gpu(self.worker.device):
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
            with exclusive_gpu(self.worker.device):
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
