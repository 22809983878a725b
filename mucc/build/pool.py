"""Run the jobs of several builds in parallel, within the cores and the memory of the machine.

    with Pool(tools=…, display=…) as pool:
        for outcome in pool.map(build, programs):   # build calls pool.run(job)
            …

If an exception, Ctrl-C included, leaves the `with`, all child processes are ended.
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
"""The most later jobs that may start before a job that waits for memory; after that, the job is next."""

COMPILERS = frozenset((Kind.NVCC, Kind.DEVICE, Kind.HOST, Kind.HEADER))
"""Kinds of jobs that compile C++."""

THREAD_GRACE = 0.5
"""The seconds that a cancelled pool waits for threads of builds, which cannot be interrupted."""

RESERVE = 8
"""The divisor of the available memory that gives the reserve left to other programs."""

MAX_RESERVE = 2_000_000_000
"""The largest reserve in bytes."""

Item = TypeVar("Item")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)


def default_memory() -> int:
    """Compute the bytes that jobs may use together: available memory less a reserve."""
    available = machine.available_memory()
    if available is None:
        return sys.maxsize
    return available - min(available // RESERVE, MAX_RESERVE)


class Runner(Protocol):
    """A function that runs one job, such as `jobs.run`."""

    def __call__(
        self,
        job: Job,
        tools: Mapping[str, str],
        *,
        keep: str | None = None,
        cancelled: threading.Event | None = None,
    ) -> Result: ...


def _default_runner() -> Runner:
    """Return the runner for the cluster that MUCC_RAY names, or else `jobs.run`."""
    if not os.environ.get("MUCC_RAY"):
        return jobs.run
    from mucc.build.cluster.runner import ambient_runner

    return ambient_runner() or jobs.run


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value_co]):
    """The outcome of an item of `Pool.map`: a value or an error."""

    value: Value_co | None = None
    error: BaseException | None = None

    def get(self) -> Value_co:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # pyright: ignore[reportReturnType]  # None is a value here


@dataclass(slots=True, eq=False)
class _Task:
    """A waiting or running job.

    `memory` is reserved for it; `passed` counts later jobs that started before it.
    """

    job: Job
    tools: Mapping[str, str]
    keep: str | None
    future: Future[Result]
    memory: int = 0
    passed: int = 0


def awaited(future: Future[Value]) -> Value:
    """Return `future.result()`, waiting in short steps so that signals are handled soon (see AWAKE)."""
    while True:
        with contextlib.suppress(TimeoutError):  # perhaps the future's own error, which is raised below
            return future.result(AWAKE)
        if future.done():
            return future.result()


class Pool:
    """A pool that runs as many jobs in parallel as cores and memory allow.

    `cores` and `memory_bytes` default to those of this machine (see `mucc.process.machine`). A job takes one
    core and the peak memory of its kind, as measured in advance or by this pool. A job larger than the bound
    runs alone. `runner` runs a job, by default on this machine or on the cluster that MUCC_RAY names
    (`remote`); one for a cluster has `cores` and `memory_bytes` of its own. Jobs start in order of
    submission, except that up to MAX_PASSED later jobs may start before a job that waits for memory. `tools`
    has the paths of placeholders; with `verbose`, diagnostics have whole logs. Thread-safe.
    """

    def __init__(
        self,
        cores: int | None = None,
        memory_bytes: int | None = None,
        tools: Mapping[str, str] | None = None,
        display: Display | None = None,
        *,
        verbose: bool = False,
        runner: Runner | None = None,
    ):
        runner = runner or _default_runner()
        self.remote = bool(getattr(runner, "remote", False))
        all_cores: int | None = getattr(runner, "cores", None)
        all_memory: int | None = getattr(runner, "memory_bytes", None)
        self.cores: int = (all_cores or machine.cores()) if cores is None else cores
        self.memory_bytes: int = (all_memory or default_memory()) if memory_bytes is None else memory_bytes
        if self.cores < 1:
            raise ValueError("a pool needs a core")
        self._tools = dict(tools or {})
        self._display = display
        self._verbose = verbose
        self._runner = runner
        self._peaks: dict[Kind, int] = dict(PEAK_BYTES)
        self._queue: list[_Task] = []
        self._running: set[_Task] = set()
        self._unresolved = 0  # running jobs, and jobs whose future has no result yet
        self._mappers: set[threading.Thread] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._closed = False
        self._tell(lambda d: d.opened(self.cores, self.memory_bytes))

    # Jobs

    def run(self, job: Job, *, tools: Mapping[str, str] | None = None, keep: str | None = None) -> Result:
        """Submit a job and wait for its result.

        `tools` override those of the pool. With `keep`, a directory, the files of the job stay there, with a
        log named after the step. Raises DiagnosticError if the job fails (`jobs.run`, `jobs.check`), and
        Cancelled if the pool is cancelled first.
        """
        return awaited(self.submit(job, tools=tools, keep=keep))

    def submit(
        self, job: Job, *, tools: Mapping[str, str] | None = None, keep: str | None = None
    ) -> Future[Result]:
        """Submit a job, as `run`, without waiting. The future can be cancelled until the job starts."""
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

    @property
    def compiles(self) -> bool:
        """Whether a compiler of C++ waits or runs, which takes seconds to a minute."""
        with self._changed:
            return any(task.job.kind in COMPILERS for task in (*self._queue, *self._running))

    def cached(self, program: str, stage: str) -> None:
        """Report to the display that a step was found in the cache."""
        self._tell(lambda d: d.cached(program, stage))

    # Whole builds

    def map(
        self, build: Callable[[Item], Value], items: Iterable[Item], name: Callable[[Item], str] = str
    ) -> Iterator[Outcome[Value]]:
        """Call `build` on every item, in threads; yields outcomes in the order of the items.

        The work begins at once. An exception is the outcome of its item and does not stop the others. There
        are more threads than cores, so that some builds compile in Python while others wait for jobs. `name`
        returns the name of an item in the display.
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
        except BaseException as error:  # exceptions cannot leave a thread
            return Outcome(error=error)

    # Scheduling

    def _dispatch(self) -> None:
        """Start all jobs that fit now."""
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
        """Take from the queue the jobs that fit, oldest first, and those that were cancelled."""
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
        # Start the next jobs before resolving this one, because its waiter may have much to do.
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
        """Report an event to the display; a display that raises is dropped."""
        if (display := self._display) is not None:
            try:
                event(display)
            except Exception:
                self._display = None
                with contextlib.suppress(Exception):
                    display.closed()

    # The end

    def cancel(self) -> None:
        """Cancel all jobs, which raise Cancelled, and kill their processes.

        Returns when the processes have ended, or after GRACE seconds.
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
            self._changed.wait_for(lambda: not self._mappers, THREAD_GRACE)

    def close(self) -> None:
        """Wait for all submitted jobs, and accept no more."""
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
