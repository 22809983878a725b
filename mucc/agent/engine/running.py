"""A run: its tasks side by side, each in a thread, until all have ended or the run is interrupted."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mucc.agent.core.proposing import ProposerFailed
from mucc.agent.engine.optimising import Optimisation, ended
from mucc.agent.engine.options import Options
from mucc.agent.engine.parts import Parts
from mucc.agent.engine.turns import Interrupted, Seats, Shared, Turns
from mucc.agent.store import Store, TaskRecord, TaskState
from mucc.api.build import AWAKE
from mucc.api.diagnostics import Diagnostic, DiagnosticError, ExitStatus, exit_status

LEAVING = 0.2
"""Seconds that threads get to end once a run is interrupted. What they are about may be long, such as a slow
model, and is repeated when the run goes on."""


@dataclass
class Ending:
    """How a run ended: what kept tasks from ending, and whether problems themselves were at fault."""

    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    failed: bool = False

    def add(self, found: Sequence[Diagnostic]) -> None:
        self.problems += [d for d in found if d not in self.problems]


def turns_of(store: Store, options: Options, records: Sequence[TaskRecord]) -> Turns:
    """Who goes on next: with a shared budget by what may be gained, else in order."""
    if options.total is None:
        return Seats(options.jobs)
    keys = [r.task.key for r in records]
    made = sum(a.spent and a.number > 0 for key in keys for a in store.attempts(key)) + sum(
        number > 0 for key in keys for number, _, _ in store.pending(key)
    )
    open_keys = [r.task.key for r in records if not ended(r)]
    return Shared(options.jobs, max(options.total - made, 0), open_keys)


def run_tasks(parts: Parts, records: Sequence[TaskRecord]) -> Ending:
    """Carry out all tasks that have not ended. Raises whatever interrupts this thread, once all is stored."""
    waiting = [r for r in records if not ended(r)]
    budget = parts.options.budget.most
    most = (
        budget * len(waiting)
        if parts.options.total is None
        else min(parts.options.total, budget * len(waiting))
    )
    parts.progress.opened(len(records), most)
    for record in records:
        if ended(record):
            parts.progress.task(record.task, record.state.value, record.stop)
    ending = Ending()
    done: queue.SimpleQueue[Ending] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_carry_out, args=(parts, record, done), name=record.task.key, daemon=True)
        for record in waiting
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            ending.add(_next(done).problems)
    except BaseException:
        _interrupt(parts)
        until = time.monotonic() + LEAVING
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0.0))
        raise
    finally:
        parts.progress.closed()
    ending.failed = any(r.state is TaskState.FAILED for r in parts.store.tasks())
    return ending


def _next(done: queue.SimpleQueue[Ending]) -> Ending:
    while True:
        try:
            return done.get(timeout=AWAKE)  # without an end, signals would wait too
        except queue.Empty:
            continue


def _interrupt(parts: Parts) -> None:
    parts.stopped.set()
    parts.turns.stop()
    parts.evaluator.close()


def _carry_out(parts: Parts, record: TaskRecord, done: queue.SimpleQueue[Ending]) -> None:
    """One task; what keeps it from ending is told, and where it would keep all others too, ends the run."""
    ending = Ending()
    try:
        Optimisation(parts, record).run()
    except Interrupted:
        pass
    except ProposerFailed as failed:
        _tell(parts, record, ending, [Diagnostic(failed.code, f"{record.task.key}: {failed.message}")])
        if failed.final:
            _stop_all(parts)
    except DiagnosticError as error:
        if not parts.stopped.is_set():
            _fail(parts, record, ending, error)
    except BaseException as error:
        if not parts.stopped.is_set():
            from mucc.api.diagnostics import internal_error

            text = internal_error(error if isinstance(error, Exception) else Exception(error), False)
            _tell(parts, record, ending, [replace(text, message=f"{record.task.key}: {text.message}")])
    finally:
        done.put(ending)


def _fail(parts: Parts, record: TaskRecord, ending: Ending, error: DiagnosticError) -> None:
    """The problem is at fault, which ends its task; or the machine, which ends the run."""
    _tell(parts, record, ending, error.diagnostics)
    status = max((exit_status(d.code) for d in error.diagnostics), default=ExitStatus.PROGRAM)
    if status >= ExitStatus.TOOLCHAIN:
        _stop_all(parts)
        return
    current = parts.store.task(record.task.key) or record
    parts.store.put_task(replace(current, state=TaskState.FAILED, stop=str(error)))
    parts.progress.task(record.task, TaskState.FAILED.value, str(error))


def _tell(parts: Parts, record: TaskRecord, ending: Ending, found: Sequence[Diagnostic]) -> None:
    ending.add(found)
    parts.progress.task(record.task, TaskState.WAITING.value, "; ".join(d.message for d in found))


def _stop_all(parts: Parts) -> None:
    """Let what is being evaluated come to its end, and begin nothing more."""
    parts.turns.stop()
