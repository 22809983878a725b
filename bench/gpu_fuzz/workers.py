"""Worker processes that try programs, and that may crash or hang without harm to the run."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bench.gpu_fuzz.choices import Choices
from bench.gpu_fuzz.trying import Outcome, Stage, attempt, settle
from bench.gpu_fuzz.varying import vary_strategies

PATIENCE, PATIENCE_ON_HOST = 420.0, 1800.0
"""Seconds after which a program counts as hanging, on a GPU and on the host (`--stage host`)."""


@dataclass(frozen=True)
class Task:
    """A program to try: random by a seed, or given by its choices."""

    seed: str = ""
    given: Sequence[int] = ()

    @property
    def choices(self) -> Choices:
        return Choices(self.seed) if self.seed else Choices(given=self.given)


Trial = Callable[[Task], Outcome]
"""What a worker does with a task: a function of a module, or a `partial` of one, since it is sent there."""


def try_on(stage: Stage, runs: int, vary: bool, task: Task) -> Outcome:
    """Try a program on one core; with `vary` convolutions are computed by any legal strategy."""
    settle()
    if vary:
        vary_strategies()
    return attempt(task.choices, stage, runs, cores=1)


def _serve(pipe: Connection, trial: Trial) -> None:
    """Receive tasks and send their outcomes until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(trial(pipe.recv()))


class Worker:
    """A process that tries one program at a time; it is replaced when it ends."""

    def __init__(self, trial: Trial, patience: float = PATIENCE):
        self._trial, self._patience = trial, patience
        self._context: Any = get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None

    def attempt(self, task: Task) -> Outcome:
        """The outcome; a crash and a hang are outcomes too."""
        if self._process is None:
            ours, theirs = self._context.Pipe()
            self._process = self._context.Process(target=_serve, args=(theirs, self._trial))
            self._process.start()
            theirs.close()
            self._pipe = ours
        began = time.monotonic()
        try:
            self._pipe.send(task)
            if self._pipe.poll(self._patience):
                outcome: Outcome = self._pipe.recv()
                if outcome.is_finding:
                    self.close()  # what a wrong kernel has done to the GPU stays with its process
                return outcome
            detail = f"no answer within {self._patience:.0f} s"
        except (EOFError, OSError):
            if (process := self._process) is None:
                return Outcome("refused", code="the run has ended")
            process.join(10)
            detail = f"the process ended with status {process.exitcode}"
        self.close()
        program = _text_of(task)
        return Outcome("crashed", **program, detail=detail, seconds=round(time.monotonic() - began, 2))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.join()
            self._process = None


def _text_of(task: Task) -> dict[str, Any]:
    from bench.gpu_fuzz.programs import generate

    program = generate(task.choices)
    made: dict[str, Any] = {"text": program.text, "form": program.form, "target": program.target}
    return {**made, "choices": program.choices}


class Crew:
    """Several workers that share a stream of tasks."""

    def __init__(self, jobs: int, trial: Trial, patience: float = PATIENCE):
        self._workers = [Worker(trial, patience) for _ in range(jobs)]

    def run(
        self, task: Callable[[], Task | None], take: Callable[[Task, Outcome], None], until: float
    ) -> None:
        """Try tasks until there is none (`task` returns None) or until a time of `time.monotonic`.

        Both functions are called by one thread at a time. What is under way at the end gets GRACE seconds.
        """
        done: queue.Queue[tuple[Task, Outcome]] = queue.Queue()
        lock = threading.Lock()

        def work(worker: Worker) -> None:
            while True:
                with lock:
                    mine = None if time.monotonic() >= until else task()
                if mine is None:
                    return
                done.put((mine, worker.attempt(mine)))

        threads = [threading.Thread(target=work, args=(w,), daemon=True) for w in self._workers]
        for thread in threads:
            thread.start()
        while any(t.is_alive() for t in threads) or not done.empty():
            if time.monotonic() >= until + GRACE:
                return
            with contextlib.suppress(queue.Empty):
                found = done.get(timeout=0.2)
                with lock:
                    take(*found)

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


GRACE = 15.0
"""Seconds that what is under way at the end of the time gets."""
