"""Search for a kernel's fastest schedules on this machine's GPU: build and measure, stage by stage.

What builds and what measures is given, so that the search itself needs neither a compiler nor a GPU.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import NamedTuple, Protocol

from mucc.build.pool import awaited
from mucc.database.records import Choice, Record, Run, Settings, Status, best, choice_text
from mucc.files.json_text import canonical
from mucc.measure.tune.analysis import Analysis
from mucc.measure.tune.building import Built
from mucc.measure.tune.choosing import BUDGET, FACTOR, candidate_of, candidates_of, first_choice, split_budget
from mucc.measure.tune.folder import build_failure
from mucc.measure.tune.gpus import Gpus, Lost
from mucc.measure.tune.measuring import Sink, after_final, entrants_of, record_of
from mucc.measure.tune.plans import Candidate, Kernel, Size

EPSILON = 0.05
"""A time within this part of the bound ends the search."""

Build = Callable[[Kernel, Sequence[Candidate]], Iterator[Built]]
"""Builds candidates side by side and gives each as soon as it is there; closing it calls off the rest."""

Place = Callable[[Built], str]
"""Puts a library where it can be loaded; its path."""


class Watcher(Protocol):
    """Is told how the search goes."""

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        """So many candidates for a stage, which need so many measurements."""
        ...

    def built(self, built: Built) -> None:
        """Report that a candidate was built, or could not be."""
        ...

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        """Report a measurement; `known` if it was in the database before."""
        ...

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        """Report the end of a stage; `reason` tells why candidates were left out."""
        ...

    def close(self) -> None:
        """End the search, whatever its outcome. May be called again."""
        ...


class Silent:
    """Watches and says nothing."""

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        pass

    def built(self, built: Built) -> None:
        pass

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        pass

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class Taking:
    """Passes what several searches report on to one watcher, one report at a time."""

    def __init__(self, watcher: Watcher):
        self._watcher = watcher
        self._lock = threading.Lock()

    def began(self, kernel: Kernel, stage: str, candidates: int, measurements: int) -> None:
        with self._lock:
            self._watcher.began(kernel, stage, candidates, measurements)

    def built(self, built: Built) -> None:
        with self._lock:
            self._watcher.built(built)

    def measured(self, kernel: Kernel, size: Size, candidate: Candidate, record: Record, known: bool) -> None:
        with self._lock:
            self._watcher.measured(kernel, size, candidate, record, known)

    def ended(self, kernel: Kernel, stage: str, reason: str) -> None:
        with self._lock:
            self._watcher.ended(kernel, stage, reason)

    def close(self) -> None:
        with self._lock:
            self._watcher.close()


class Limits(NamedTuple):
    """How much is tried; see `mucc.measure.tune.choosing`."""

    budget: int = BUDGET
    factor: float = FACTOR
    epsilon: float = EPSILON


class _Asked(NamedTuple):
    """A measurement that was asked for."""

    built: Built
    size: Size
    future: Future[Record]


@dataclass
class Search:
    """Tunes kernels. `known` are earlier measurements of this card, which are not made again."""

    gpus: Gpus
    build: Build
    place: Place
    keep: Sink
    limits: Limits = field(default_factory=Limits)
    watcher: Watcher = field(default_factory=Silent)
    known: dict[tuple[str, ...], Record] = field(default_factory=dict[tuple[str, ...], Record])

    def tune(self, analysis: Analysis) -> tuple[Kernel, Choice]:
        """Tune a kernel: return all candidates that were tried, and the best choice for all sizes together.

        Contractions come one after the other, that with most operations first; while one is searched the
        others have the best that is known. What was measured is in `known` and was given to `keep`.
        """
        kernel = analysis.kernel
        choice: dict[str, Settings] = first_choice(analysis)
        tried: dict[str, Candidate] = {}
        shares = split_budget(self.limits.budget, len(analysis.stages))
        for stage, share in zip(analysis.stages, shares, strict=True):
            candidates = candidates_of(analysis, stage, choice, share, self.limits.factor)
            begun = candidate_of(analysis, stage, choice)
            if all(c.id != begun.id for c in candidates):
                candidates.append(begun)
            self._stage(kernel, stage, candidates)
            tried |= {c.id: c for c in candidates}
            found = overall(kernel, candidates, self._known)
            if found is not None:
                choice = {name: found.choice[name] for name in choice}
        return dataclasses.replace(kernel, candidates=tuple(tried.values())), choice

    def _stage(self, kernel: Kernel, stage: str, candidates: Sequence[Candidate]) -> None:
        todo = [c for c in candidates if self._missing(kernel, c)]
        self.watcher.began(kernel, stage, len(todo), sum(len(self._missing(kernel, c)) for c in todo))
        for candidate in candidates:
            for size in kernel.sizes:
                if (record := self._known(kernel, size, candidate)) is not None:
                    self.watcher.measured(kernel, size, candidate, record, True)
        paths: dict[str, str] = {}
        reason = ""
        fresh = {size.text for size in kernel.sizes for c in todo if size in self._missing(kernel, c)}
        builds = self.build(kernel, todo)
        done = 0
        asked: list[_Asked] = []
        try:
            for built in builds:
                done += 1
                self._ask(built, paths, asked)
                # One GPU less than all may have work when the next library is waited for.
                self._take(asked, self.gpus.count - 1)
                if done < len(todo) and self._at_bound(kernel, candidates):
                    reason = f"within {self.limits.epsilon:.0%} of the bound: {len(todo) - done} not tried"
                    break
        finally:
            close = getattr(builds, "close", None)
            if close is not None:
                close()
        self._take(asked, 0)
        self._final_rounds(kernel, candidates, paths, fresh)
        self.watcher.ended(kernel, stage, reason)

    def _ask(self, built: Built, paths: dict[str, str], asked: list[_Asked]) -> None:
        """Ask for all measurements that are missing of a candidate, and keep those that are made."""
        kernel, candidate = built.kernel, built.candidate
        self.watcher.built(built)
        if built.failure is not None:
            for size in self._missing(kernel, candidate):
                record = record_of(kernel, size, candidate, "", build_failure(built.failure))
                if built.failure.lasting:
                    self.keep([record])
                self.known[record.key] = record
                self.watcher.measured(kernel, size, candidate, record, False)
            return
        path = paths[candidate.id] = self.place(built)
        for size in self._missing(kernel, candidate):
            key = (kernel.digest, size.text)
            future = self.gpus.submit(key, lambda m, size=size: m.sweep(kernel, size, candidate, path))
            asked.append(_Asked(built, size, future))
            self._take(asked, len(asked))

    def _take(self, asked: list[_Asked], left: int) -> None:
        """Keep results as they come until at most `left` are still awaited."""
        while asked:
            ready = [a for a in asked if a.future.done()]
            if not ready and len(asked) <= left:
                return
            for one in ready or asked[:1]:
                self._took(one)
                asked.remove(one)

    def _took(self, asked: _Asked) -> None:
        """Wait for a measurement and keep it."""
        kernel, candidate, size = asked.built.kernel, asked.built.candidate, asked.size
        try:
            record = awaited(asked.future)
        except Lost as error:
            run = Run(Status.FAULT, f"the process or machine that measured it was lost: {error}")
            record = record_of(kernel, size, candidate, self.gpus.card, run)
        if asked.built.notes and not record.run.reason:
            record = dataclasses.replace(record, run=record.run._replace(reason=asked.built.notes))
        self._add([record])
        self.watcher.measured(kernel, size, candidate, record, False)

    def _final_rounds(
        self, kernel: Kernel, candidates: Sequence[Candidate], paths: dict[str, str], fresh: set[str]
    ) -> None:
        """Run the last round of each size that has something new or had none yet; sizes side by side."""
        by_id = {c.id: c for c in candidates}
        rounds: list[tuple[dict[str, Record], Future[list[Record]]]] = []
        for size in kernel.sizes:
            here = {c.id: r for c in candidates if (r := self._known(kernel, size, c)) is not None}
            if size.text not in fresh and any(r.run.final for r in here.values()):
                continue
            entrants = entrants_of(here)
            # Some may be known from an earlier run, and their libraries are in the cache.
            lacking = [by_id[id] for id in entrants if id not in paths]
            for built in self.build(kernel, lacking) if lacking else ():
                if built.data is not None:
                    paths[built.candidate.id] = self.place(built)
            racing = [(by_id[id], paths[id]) for id in entrants if id in paths]
            if len(racing) > 1:
                key = (kernel.digest, size.text)
                future = self.gpus.submit(key, lambda m, size=size, r=racing: m.final(kernel, size, r))
                rounds.append((here, future))
        for here, future in rounds:
            try:
                raced = awaited(future)
            except Lost:
                continue  # what the sweeps found stays
            if raced:
                self._add(after_final(list(here.values()), raced))

    def _missing(self, kernel: Kernel, candidate: Candidate) -> list[Size]:
        """Return the sizes at which a candidate is worth measuring and was not measured."""
        return [
            size
            for size, estimate in zip(kernel.sizes, candidate.estimates, strict=True)
            if estimate is not None and self._known(kernel, size, candidate) is None
        ]

    def _known(self, kernel: Kernel, size: Size, candidate: Candidate) -> Record | None:
        for card in (self.gpus.card, ""):
            key = record_of(kernel, size, candidate, card, Run(Status.GOOD)).key
            if (record := self.known.get(key)) is not None:
                return record
        return None

    def _add(self, records: list[Record]) -> None:
        self.keep(records)
        self.known.update((r.key, r) for r in records)

    def _at_bound(self, kernel: Kernel, candidates: Sequence[Candidate]) -> bool:
        """Whether at every size the best is so near to the bound that a search cannot gain much."""
        for size in kernel.sizes:
            found = best([r for c in candidates if (r := self._known(kernel, size, c)) is not None])
            if found is None or size.bound_us is None:
                return False
            if found.time_us > size.bound_us * (1 + self.limits.epsilon):
                return False
        return True


def overall(
    kernel: Kernel,
    candidates: Iterable[Candidate],
    known: Callable[[Kernel, Size, Candidate], Record | None],
) -> Candidate | None:
    """Return the candidate with the least loss against the best of each size, as a geometric mean over sizes.

    Those that were not measured at all sizes come after the others.
    """
    candidates = list(candidates)
    times = {
        c.id: [r.time_us if (r := known(kernel, s, c)) and r.is_good else None for s in kernel.sizes]
        for c in candidates
    }
    columns = ([t[i] for t in times.values()] for i in range(len(kernel.sizes)))
    least = [min((t for t in column if t is not None), default=None) for column in columns]

    def rank(candidate: Candidate) -> tuple[int, float]:
        ratios = [t / low for t, low in zip(times[candidate.id], least, strict=True) if t and low]
        return -len(ratios), geometric_mean(ratios) if ratios else 0.0

    measured = [c for c in candidates if any(times[c.id])]
    return min(measured, key=rank, default=None)


def overall_choice(kernel: Kernel, records: Iterable[Record]) -> Choice | None:
    """`overall` of records, such as those of a folder."""
    found = {(canonical(dict(r.dims)), choice_text(r.choice)): r for r in records if r.is_good}

    def known(_: Kernel, size: Size, candidate: Candidate) -> Record | None:
        return found.get((canonical(dict(size.dims)), choice_text(candidate.choice)))

    candidate = overall(kernel, kernel.candidates, known)
    return candidate.choice if candidate else None
