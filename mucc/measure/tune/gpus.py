"""Measure on several GPUs in parallel: one thread for each takes candidates from a queue.

All are of one kind of card. What has one key, such as a kernel at a size, goes to one GPU as long as others
have work of their own, because inputs and references are made there.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from mucc.build.pool import Cancelled
from mucc.diagnostics.core import Diagnostic, DiagnosticError
from mucc.measure.tune.measuring import Measurer

MOST_LOSSES = 3
"""Measurers that one measurement may lose before it is given up, since it may be what ends them."""

ENDED = "the search has ended"

Value = TypeVar("Value")


class Lost(Exception):
    """A measurer's machine or process has ended; another measurer can take over its work."""


class Gpus(Protocol):
    """Where measurements are made: `Alone` on one GPU, or `Together` on several."""

    card: str
    count: int

    def submit(self, key: Hashable, work: Callable[[Measurer], Value]) -> Future[Value]:
        """Have `work` called with a measurer; the future has its result or its exception."""
        ...


class Alone:
    """One measurer, used by the thread that submits: the work is done when `submit` returns."""

    count = 1

    def __init__(self, measurer: Measurer):
        self.measurer = measurer
        self.card = measurer.card

    def submit(self, key: Hashable, work: Callable[[Measurer], Value]) -> Future[Value]:
        future: Future[Value] = Future()
        try:
            future.set_result(work(self.measurer))
        except Exception as error:
            future.set_exception(error)
        return future


class _Task:
    """Work that waits, with the number of measurers that were lost over it."""

    def __init__(self, key: Hashable, work: Callable[[Measurer], object], future: Future[object]):
        self.key, self.work, self.future = key, work, future
        self.losses = 0


class Together:
    """Several measurers with a thread each. Leaving the `with` drops what waits. Thread-safe.

    `replace` is called with a measurer that raised Lost, and returns another in its place or None. Work over
    which MOST_LOSSES measurers were lost fails with Lost; where no measurer is left, all that waits fails
    with MU5505.
    """

    def __init__(
        self,
        measurers: Sequence[Measurer],
        replace: Callable[[Measurer], Measurer | None] = lambda _: None,
    ):
        if not measurers:
            raise ValueError("there is nothing to measure with")
        self.card = measurers[0].card
        self.count = len(measurers)
        self._replace = replace
        self._changed = threading.Condition()
        self._queues: dict[int, deque[_Task]] = {i: deque() for i in range(len(measurers))}
        self._homes: dict[Hashable, int] = {}
        self._loads = dict.fromkeys(self._queues, 0)
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, args=(i, measurer), name="mucc-gpu", daemon=True)
            for i, measurer in enumerate(measurers)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Together:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def submit(self, key: Hashable, work: Callable[[Measurer], Value]) -> Future[Value]:
        future: Future[Value] = Future()
        task = _Task(key, work, future)  # pyright: ignore[reportArgumentType]  # its result is a Value
        with self._changed:
            if self._closed or not self._queues:
                future.set_exception(Cancelled(ENDED) if self._closed else none_left())
                return future
            self._queues[self._home(key)].append(task)
            self._changed.notify_all()
        return future

    def close(self) -> None:
        """Drop what waits, and let threads end after what they do now."""
        with self._changed:
            self._closed = True
            for queue in self._queues.values():
                while queue:
                    queue.popleft().future.cancel()
            self._changed.notify_all()

    def _home(self, key: Hashable) -> int:
        """Return the GPU of a key: the one with the fewest keys for a new key."""
        home = self._homes.get(key)
        if home is None or home not in self._queues:
            home = min(self._queues, key=lambda i: self._loads[i])
            self._homes[key] = home
            self._loads[home] += 1
        return home

    def _serve(self, place: int, measurer: Measurer) -> None:
        current: Measurer | None = measurer
        while current is not None and (task := self._take(place)) is not None:
            try:
                result = task.work(current)
            except Lost as lost:
                self._give_back(task, lost)
                current = None if self._closed else self._replace(current)
            except BaseException as error:  # exceptions cannot leave a thread
                task.future.set_exception(error)
            else:
                # Processes are ended with the search, and what they did then says nothing of a candidate.
                if self._closed:
                    task.future.set_exception(Cancelled(ENDED))
                else:
                    task.future.set_result(result)
        if current is None:
            self._leave(place)

    def _take(self, place: int) -> _Task | None:
        """Wait for work: that of this GPU, or else the newest of the GPU where most waits."""
        with self._changed:
            while not self._closed:
                own = self._queues[place]
                task = own.popleft() if own else None
                if task is None and (longest := max(self._queues.values(), key=len)):
                    task = longest.pop()
                if task is not None and task.future.set_running_or_notify_cancel():
                    return task
                if task is None:
                    self._changed.wait()
        return None

    def _give_back(self, task: _Task, lost: Lost) -> None:
        """Queue the work of a lost measurer again, before all that waits."""
        task.losses += 1
        if self._closed:
            task.future.set_exception(Cancelled(ENDED))
            return
        if task.losses >= MOST_LOSSES:
            task.future.set_exception(Lost(f"it was given up after {task.losses} losses: {lost}"))
            return
        with self._changed:
            again: Future[object] = Future()  # a future runs once only
            _follow(again, task.future)
            task.future = again
            self._queues[self._home(task.key)].appendleft(task)
            self._changed.notify_all()

    def _leave(self, place: int) -> None:
        """Hand what waits for a GPU that is gone to others; fail it where there are none."""
        with self._changed:
            waiting = self._queues.pop(place)
            self.count = max(len(self._queues), 1)
            for task in waiting:
                if self._queues and not self._closed:
                    self._queues[self._home(task.key)].append(task)
                elif task.future.set_running_or_notify_cancel():
                    task.future.set_exception(none_left())
            self._changed.notify_all()


def none_left() -> DiagnosticError:
    """Build MU5505."""
    message = "no GPU is left to measure on: all processes or machines that measured were lost"
    helps = ("what was measured is kept: the same command goes on where it was",)
    return DiagnosticError(Diagnostic("MU5505", message, helps=helps))


def _follow(source: Future[object], target: Future[object]) -> None:
    """Copy the outcome of one future to another."""

    def copy(done: Future[object]) -> None:
        if done.cancelled():
            target.set_exception(Cancelled(ENDED))
        elif (error := done.exception()) is not None:
            target.set_exception(error)
        else:
            target.set_result(done.result())

    source.add_done_callback(copy)
