"""Evaluate candidates on this machine: build and run all, then audit until the fastest that counts is
found."""

from __future__ import annotations

import contextlib
import os
import queue
import tempfile
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from mucc.agent.audit import auditing
from mucc.agent.budget.stopping import PROGRESS
from mucc.agent.core.attempts import Candidate, Outcome, Status
from mucc.agent.core.evaluator import Comparison, Watch
from mucc.agent.core.tasks import Task
from mucc.agent.evaluate.acceptance import Judge
from mucc.agent.evaluate.build import Builder, Built
from mucc.agent.evaluate.comparison import Comparer
from mucc.agent.evaluate.execution import Ran, Runner
from mucc.agent.evaluate.settings import Settings
from mucc.agent.isolation.priority import patient_run
from mucc.agent.isolation.zygote import Zygote
from mucc.api import processes
from mucc.api.build import Cancelled, Pool
from mucc.api.diagnostics import Diagnostic, DiagnosticError
from mucc.api.machine import Room, gpu_memory

PRELOADED = (
    "mucc.agent.evaluate.execution_child",
    "mucc.agent.evaluate.comparison_child",
    *auditing.PRELOADED,
)
"""Modules that processes of evaluations and audits need."""

THREADS = 64
"""Candidates of all tasks in evaluation at a time; pool and GPU limit how many of them build or run at
once."""

Done = tuple[int, Outcome | BaseException]


class LocalEvaluator:
    """Evaluates on this machine. Its zygote begins to load torch at once, and is closed with it."""

    def __init__(self, device: str, jobs: int | None, folder: str | None, settings: Settings, zygote: Zygote):
        self._held = contextlib.ExitStack()
        if folder is None:
            folder = self._held.enter_context(processes.temporary_folder(tempfile.gettempdir()))
        self.folder = os.path.abspath(folder)
        libraries = os.path.join(self.folder, "libraries")
        try:
            os.makedirs(libraries, exist_ok=True)
        except OSError as error:
            self._held.close()
            message = f"{libraries} cannot be made: {error.strerror}"
            raise DiagnosticError(Diagnostic("MU7203", message)) from None
        self._zygote = zygote
        self._zygote.start()
        # On a cluster nothing that is timed here is disturbed.
        self._pool = Pool(cores=jobs, runner=None if os.environ.get("MUCC_RAY") else patient_run)
        self._threads = ThreadPoolExecutor(THREADS, "evaluate")
        self._closed = False
        self.builder = Builder(self._pool, libraries, settings)
        room = Room(None if device == "cpu" else gpu_memory())
        self.runner = Runner(self._zygote, device, room, settings)
        self.judge = Judge(self._zygote, room, settings)
        self.comparer = Comparer(self._zygote, self.folder, room, settings)

    def evaluate(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        best_ms: float | None,
        watch: Watch | None = None,
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of each candidate by its place, as they are done; see `core.evaluator.Evaluator`.

        To beat the best a candidate has to be faster by what counts as progress. Raises DiagnosticError where
        the machine or the problem file is at fault, Cancelled where the evaluator is closed meanwhile.
        """
        watch = watch or _nobody
        contenders: dict[int, Outcome] = {}
        for place, outcome in self._all_run(task, candidates, watch):
            if _beats(outcome, best_ms):
                contenders[place] = outcome
            else:
                yield place, outcome
        fastest_first = sorted(contenders, key=lambda place: contenders[place].ms or 0.0)
        accepted = False
        for place in fastest_first:
            outcome = contenders[place]
            if not accepted:
                watch(place, "audit")
                outcome = self._audited(task, candidates[place], outcome)
                accepted = outcome.counts
            yield place, outcome

    def compare(self, task: Task, candidate: Candidate | None) -> Comparison:
        """Time the baselines, and a candidate with them."""
        if candidate is None:
            return self.comparer.compare(task, self.runner.device, None, None)
        built = self._built(task, candidate)
        if built.status is not Status.GOOD:
            found = self.comparer.compare(task, self.runner.device, None, None)
            return Comparison(found.ms, {**found.failed, "mucc": built.reason})
        return self.comparer.compare(task, self.runner.device, candidate.program, built.library)

    def library(self, task: Task, candidate: Candidate) -> str | None:
        """Return the path of the library that was built of a candidate; None if there is none."""
        path = self.builder.path(task, candidate)
        return path if os.path.exists(path) else None

    def close(self) -> None:
        """End all processes."""
        if self._closed:
            return
        self._closed = True
        self._pool.cancel()
        self._zygote.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._held.close()

    def __enter__(self) -> LocalEvaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # One candidate

    def _all_run(
        self, task: Task, candidates: Sequence[Candidate], watch: Watch
    ) -> Iterator[tuple[int, Outcome]]:
        """Build and run all candidates in parallel, without an audit."""
        done: queue.SimpleQueue[Done] = queue.SimpleQueue()

        def work(place: int) -> None:
            try:
                done.put((place, self._run(task, candidates[place], place, watch)))
            except BaseException as error:
                done.put((place, error))

        futures = [self._threads.submit(work, place) for place in range(len(candidates))]
        try:
            for _ in candidates:
                place, outcome = done.get()
                if isinstance(outcome, BaseException):
                    raise outcome
                yield place, outcome
        finally:
            for future in futures:
                future.cancel()

    def _run(self, task: Task, candidate: Candidate, place: int, watch: Watch) -> Outcome:
        watch(place, "build")
        built = self._built(task, candidate)
        seconds = {"build": built.seconds}
        if built.status is not Status.GOOD:
            said = built.diagnostics
            return Outcome(built.status, built.reason, diagnostics=said, seconds=seconds)
        watch(place, "run")
        ran = self._ran(task, candidate, built)
        return Outcome(
            ran.status,
            ran.reason,
            ran.ms,
            ran.spread_ms,
            diagnostics=built.diagnostics,
            seconds=seconds | ran.seconds,
            facts=built.facts | ran.facts,
            printed=ran.printed,
        )

    def _built(self, task: Task, candidate: Candidate) -> Built:
        with self._open():
            return self.builder.build(task, candidate)

    def _ran(self, task: Task, candidate: Candidate, built: Built) -> Ran:
        with self._open():
            return self.runner.run(task, candidate.program, built.library)

    def _audited(self, task: Task, candidate: Candidate, outcome: Outcome) -> Outcome:
        library = outcome.facts.get("library")
        with self._open():
            found = self.judge.judge(task, self.runner.device, candidate.program, library)
        return replace(
            outcome,
            status=Status.GOOD if found.accepted else Status.REJECTED,
            reason=found.reason,
            audited=True,
            label=found.label,
            verdict=found.verdict,
            seconds={**outcome.seconds, "audit": found.seconds},
        )

    @contextlib.contextmanager
    def _open(self) -> Generator[None]:
        """Drop a result after `close`, which ended the process."""
        try:
            yield
        finally:
            if self._closed:
                raise Cancelled("the evaluator was closed")


def _beats(outcome: Outcome, best_ms: float | None) -> bool:
    if outcome.status is not Status.GOOD or outcome.ms is None:
        return False
    return best_ms is None or outcome.ms < best_ms * (1 - PROGRESS)


def _nobody(place: int, stage: str) -> None:
    pass
