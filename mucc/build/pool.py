"""Runs the jobs of many builds at once, within the cores and the memory of the machine.

    with Pool(tools=…, display=…) as pool:
        for outcome in pool.map(build, programs):   # build calls pool.run(job)
            …

Leaving the `with` by an exception, Ctrl-C included, ends every child process.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from mucc.build import jobs
from mucc.build.jobs import AWAKE, GRACE, PEAK_BYTES, Cancelled, Job, Kind, Result
from mucc.process import machine

if TYPE_CHECKING:
    from mucc.build.progress import Display

__all__ = ["Cancelled", "Outcome", "Pool", "awaited", "default_memory"]

MAX_PASSED = 8
"""How many later jobs may start before one that waits for memory; then nothing does until it has started."""

FINDING_OUT = 0.5
"""Seconds that a cancelled pool waits for builds that are busy in Python, and cannot be interrupted."""

RESERVE = 8
"""One part in this many of the available memory is left alone, …"""

MAX_RESERVE = 2_000_000_000
"""… but no more bytes than this."""

Item = TypeVar("Item")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


def default_memory() -> int:
    """Bytes that jobs may take together: what is available now less a reserve; no bound if unknown."""
    available = machine.available_memory()
    if available is None:
        return sys.maxsize
    return available - min(available // RESERVE, MAX_RESERVE)


class Runner(Protocol):
    """What runs one job, here or elsewhere; `jobs.run` is the usual one."""

    def __call__(
        self,
        job: Job,
        tools: Mapping[str, str],
        *,
        keep: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> Result: ...


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value_co]):
    """What came of one item of `Pool.map`: a value or an error."""

    value: Value_co | None = None
    error: BaseException | None = None

    def get(self) -> Value_co:
        """The value; raises the error where there is one."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]  # None is a value here


@dataclass(slots=True, eq=False)
class _Task:
    """A job that waits or runs. `memory` is what it was given; `passed` counts those that went before it."""

    job: Job
    tools: Mapping[str, str]
    keep: str | None
    future: Future[Result]
    memory: int = 0
    passed: int = 0


def awaited(future: Future[Value]) -> Value:
    """Like `future.result()`, but a signal gets through at once (see AWAKE)."""
    while True:
        with contextlib.suppress(TimeoutError):  # perhaps the future's own error, which is raised below
            return future.result(AWAKE)
        if future.done():
            return future.result()


class Pool:
    """Runs jobs, as many at once as cores and memory allow.

    `cores` and `memory_bytes` default to what this machine gives us (see `mucc.process.machine`). A job takes
    one core and the measured peak of its kind, or the highest that this pool has seen of it. One that
    is larger than the bound runs alone. Jobs start in the order of coming, but a job that waits for
    memory lets up to MAX_PASSED later ones go first. `tools` gives the paths of placeholders,
    `verbose` puts whole logs into diagnostics. All methods may be called from any thread.
    """

    def __init__(
        self,
        cores: int | None = None,
        memory_bytes: int | None = None,
        tools: Mapping[str, str] | None = None,
        display: Display | None = None,
        *,
        verbose: bool = False,
        runner: Runner = jobs.run,
    ):
        self.cores = machine.cores() if cores is None else cores
        self.memory_bytes = default_memory() if memory_bytes is None else memory_bytes
        if self.cores < 1:
            raise ValueError("a pool needs a core")
        self._tools = dict(tools or {})
        self._display = display
        self._verbose = verbose
        self._runner = runner
        self._peaks: dict[Kind, int] = dict(PEAK_BYTES)
        self._queue: list[_Task] = []
        self._running: set[_Task] = set()
        self._unresolved = 0  # those that run, and those whose future has no result yet
        self._mappers: set[threading.Thread] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._closed = False
        self._tell(lambda d: d.opened(self.cores, self.memory_bytes))

    # Jobs

    def run(self, job: Job, *, tools: Mapping[str, str] | None = None, keep: str | None = None) -> Result:
        """Run a job when its turn comes, and wait for it.

        `tools` go before those of the pool. With `keep`, a directory, the files of the job stay there,
        beside a log named after the stage. Raises DiagnosticError where the job fails (`jobs.run`,
        `jobs.check`), and Cancelled where the pool ends before it.
        """
        return awaited(self.submit(job, tools=tools, keep=keep))

    def submit(
        self, job: Job, *, tools: Mapping[str, str] | None = None, keep: str | None = None
    ) -> Future[Result]:
        """Like `run`, without waiting. Cancelling the future works until the job has started."""
        task = _Task(job, {**self._tools, **tools} if tools else self._tools, keep, Future())
        self._tell(lambda d: d.queued(job))
        with self._changed:
            if self._stop.is_set():
                raise Cancelled(f"{job.place}: the pool has ended")
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._queue.append(task)
        self._dispatch()
        return task.future

    def cached(self, program: str, stage: str) -> None:
        """Tell the display that a stage needs no job."""
        self._tell(lambda d: d.cached(program, stage))

    # Whole builds

    def map(
        self, build: Callable[[Item], Value], items: Iterable[Item], name: Callable[[Item], str] = str
    ) -> Iterator[Outcome[Value]]:
        """Call `build` on every item, in threads; the outcomes in the order of the items.

        The work begins at once; the iterator gives each outcome as soon as it and those before it are
        there. What one item raises is its outcome, and the others go on. While `build` waits for jobs
        it holds no core; there are somewhat more threads than cores, so that some compile while others
        wait. `name` is what an item is called in the display.
        """
        entries: list[tuple[Item, Future[Outcome[Value]]]] = [(item, Future()) for item in items]
        futures = [future for _, future in entries]
        left = iter(entries)
        lock = threading.Lock()
        self._tell(lambda d: d.expected(len(entries)))

        def work() -> None:
            while True:
                with lock:
                    entry = next(left, None)
                if entry is None:
                    break
                item, future = entry
                outcome = self._built(build, item)
                self._tell(lambda d, item=item: d.done(name(item)))
                future.set_result(outcome)
            with self._changed:
                self._mappers.discard(threading.current_thread())
                self._changed.notify_all()

        for _ in range(min(len(entries), 2 * self.cores + 2)):
            thread = threading.Thread(target=work, name="mucc-build", daemon=True)
            with self._changed:
                self._mappers.add(thread)
            try:
                thread.start()
            except BaseException:
                with self._changed:
                    self._mappers.discard(thread)
                raise
        return (awaited(future) for future in futures)

    def _built(self, build: Callable[[Item], Value], item: Item) -> Outcome[Value]:
        if self._stop.is_set():
            return Outcome(error=Cancelled("the pool has ended"))
        try:
            return Outcome(build(item))
        except BaseException as error:  # a thread has nobody above it to raise to
            return Outcome(error=error)

    # Scheduling

    def _dispatch(self) -> None:
        """Start every job that may start now."""
        with self._changed:
            ready, given_up = self._choose()
        for task in ready:
            try:
                threading.Thread(target=self._work, args=(task,), name="mucc-job", daemon=True).start()
            except RuntimeError as error:  # no more threads
                with self._changed:
                    self._running.discard(task)
                self._resolve(task, None, error)
        for task in given_up:
            self._tell(lambda d, job=task.job: d.dropped(job))

    def _choose(self) -> tuple[list[_Task], list[_Task]]:
        """Take from the queue what fits, oldest first, and what was given up meanwhile."""
        chosen: list[_Task] = []
        given_up: list[_Task] = []
        blocked: list[_Task] = []
        memory = sum(task.memory for task in self._running)
        for position, task in enumerate(self._queue):
            room = len(self._running) < self.cores
            stuck = any(other.passed >= MAX_PASSED for other in blocked)
            if not room or stuck:
                blocked += self._queue[position:]
                break
            need = self._peaks[task.job.kind]
            if self._running and memory + need > self.memory_bytes:
                blocked.append(task)
                continue
            if not task.future.set_running_or_notify_cancel():
                given_up.append(task)
                continue
            for other in blocked:
                other.passed += 1
            task.memory = need
            memory += need
            self._running.add(task)
            chosen.append(task)
        self._queue = blocked
        self._unresolved += len(chosen)
        return chosen, given_up

    def _work(self, task: _Task) -> None:
        job = task.job
        self._tell(lambda d: d.started(job, task.memory))
        result: Result | None = None
        error: BaseException | None = None
        try:
            result = self._runner(job, task.tools, keep=task.keep, cancelled=self._stop)
            log_path = None
            if task.keep is not None:
                log_path = os.path.join(task.keep, re.sub(r"[^\w.]+", "-", job.stage) + ".log")
                jobs.save_log(log_path, job, result, task.tools)
            jobs.check(job, result, task.tools, verbose=self._verbose, log_path=log_path)
        except BaseException as caught:
            error = caught
        if error is None and result is not None:
            finished = result
            self._tell(lambda d: d.finished(job, finished))
        else:
            self._tell(lambda d: d.failed(job, str(error)))
        with self._changed:
            self._running.discard(task)
            if result is not None:
                self._peaks[job.kind] = max(self._peaks[job.kind], result.peak_bytes)
        # The next jobs start before whoever waits for this one: it may have much to do first.
        self._dispatch()
        self._resolve(task, result, error)

    def _resolve(self, task: _Task, result: Result | None, error: BaseException | None) -> None:
        if error is not None:
            task.future.set_exception(error)
        elif result is not None:
            task.future.set_result(result)
        with self._changed:
            self._unresolved -= 1
            self._changed.notify_all()

    def _tell(self, event: Callable[[Display], None]) -> None:
        """Report to the display; one that fails is dropped, for the builds matter more."""
        if (display := self._display) is not None:
            try:
                event(display)
            except Exception:
                self._display = None
                with contextlib.suppress(Exception):
                    display.closed()

    # The end

    def cancel(self) -> None:
        """End everything: jobs that wait or run raise Cancelled, and their processes are killed.

        Returns when they are gone, or after GRACE seconds.
        """
        with self._changed:
            self._stop.set()
            dropped, self._queue = self._queue, []
        for task in dropped:
            if task.future.set_running_or_notify_cancel():
                task.future.set_exception(Cancelled(f"{task.job.place}: called off"))
            self._tell(lambda d, job=task.job: d.dropped(job))
        self._tell(lambda d: d.closed())
        with self._changed:
            self._changed.wait_for(lambda: not self._unresolved, GRACE)
            self._changed.wait_for(lambda: not self._mappers, FINDING_OUT)

    def close(self) -> None:
        """Wait for everything that was given to the pool, and take no more."""
        with self._changed:
            while self._mappers:
                self._changed.wait(AWAKE)
            self._closed = True
            while self._unresolved or self._queue:
                self._changed.wait(AWAKE)
        self._tell(lambda d: d.closed())

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None:
            self.cancel()
            return
        try:
            self.close()
        except BaseException:
            self.cancel()
            raise
