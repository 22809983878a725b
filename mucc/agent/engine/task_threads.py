"""Run tasks in parallel, each in a thread, until all have ended or the run is interrupted."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mucc.agent.core.proposer import ProposerFailed
from mucc.agent.engine.context import RunContext
from mucc.agent.engine.options import Options
from mucc.agent.engine.task_run import TaskRun, ended
from mucc.agent.engine.turns import Interrupted, Seats, Shared, Turns
from mucc.agent.store import Store, TaskRecord, TaskState
from mucc.api.build import AWAKE
from mucc.api.diagnostics import Diagnostic, DiagnosticError, ExitStatus, exit_status

LEAVING = 0.2
"""Seconds to wait for threads after an interrupt. A longer operation, such as a call of a slow model, is
abandoned, and repeated when the run goes on."""


@dataclass
class Ending:
    """The end of a run: diagnostics of tasks that could not end, and whether a problem file was at fault."""

    problems: list[Diagnostic] = field(default_factory=list[Diagnostic])
    failed: bool = False

    def add(self, found: Sequence[Diagnostic]) -> None:
        self.problems += [d for d in found if d not in self.problems]


def turns_of(store: Store, options: Options, records: Sequence[TaskRecord]) -> Turns:
    """Make the scheduler of tasks: by expected gain where tasks share a budget, else in order."""
    if options.total is None:
        return Seats(options.jobs)
    keys = [r.task.key for r in records]
    made = sum(a.spent and a.number > 0 for key in keys for a in store.attempts(key)) + sum(
        number > 0 for key in keys for number, _, _ in store.pending(key)
    )
    open_keys = [r.task.key for r in records if not ended(r)]
    return Shared(options.jobs, max(options.total - made, 0), open_keys)


def run_tasks(context: RunContext, records: Sequence[TaskRecord]) -> Ending:
    """Run all tasks that have not ended. Raises whatever interrupts this thread, once all is stored."""
    waiting = [r for r in records if not ended(r)]
    budget = context.options.budget.most
    most = (
        budget * len(waiting)
        if context.options.total is None
        else min(context.options.total, budget * len(waiting))
    )
    context.progress.opened(len(records), most)
    for record in records:
        if ended(record):
            context.progress.task(record.task, record.state.value, record.stop)
    ending = Ending()
    done: queue.SimpleQueue[Ending] = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_run_task, args=(context, record, done), name=record.task.key, daemon=True)
        for record in waiting
    ]
    try:
        for thread in threads:
            thread.start()
        for _ in threads:
            ending.add(_next(done).problems)
        for thread in threads:
            thread.join()  # all are about to end; a daemon that has not may crash an interpreter that ends
    except BaseException:
        _interrupt(context)
        until = time.monotonic() + LEAVING
        for thread in threads:
            thread.join(max(until - time.monotonic(), 0.0))
        raise
    finally:
        context.progress.closed()
    ending.failed = any(r.state is TaskState.FAILED for r in context.store.tasks())
    return ending


def _next(done: queue.SimpleQueue[Ending]) -> Ending:
    while True:
        try:
            return done.get(timeout=AWAKE)  # without an end, signals would wait too
        except queue.Empty:
            continue


def _interrupt(context: RunContext) -> None:
    context.stopped.set()
    context.turns.stop()
    context.evaluator.close()


def _run_task(context: RunContext, record: TaskRecord, done: queue.SimpleQueue[Ending]) -> None:
    """Run one task in this thread. A failure is reported; one that would meet all tasks ends the run."""
    ending = Ending()
    try:
        TaskRun(context, record).run()
    except Interrupted:
        pass
    except ProposerFailed as failed:
        _tell(context, record, ending, [Diagnostic(failed.code, f"{record.task.key}: {failed.message}")])
        if failed.final:
            _stop_all(context)
    except DiagnosticError as error:
        if not context.stopped.is_set():
            _fail(context, record, ending, error)
    except BaseException as error:
        if not context.stopped.is_set():
            from mucc.api.diagnostics import internal_error

            text = internal_error(error if isinstance(error, Exception) else Exception(error), False)
            _tell(context, record, ending, [replace(text, message=f"{record.task.key}: {text.message}")])
    finally:
        done.put(ending)


def _fail(context: RunContext, record: TaskRecord, ending: Ending, error: DiagnosticError) -> None:
    """Handle an error: a fault of the problem ends its task, a fault of the machine ends the run."""
    _tell(context, record, ending, error.diagnostics)
    status = max((exit_status(d.code) for d in error.diagnostics), default=ExitStatus.PROGRAM)
    if status >= ExitStatus.TOOLCHAIN:
        _stop_all(context)
        return
    current = context.store.task(record.task.key) or record
    context.store.put_task(replace(current, state=TaskState.FAILED, stop=str(error)))
    context.progress.task(record.task, TaskState.FAILED.value, str(error))


def _tell(context: RunContext, record: TaskRecord, ending: Ending, found: Sequence[Diagnostic]) -> None:
    ending.add(found)
    context.progress.task(record.task, TaskState.WAITING.value, "; ".join(d.message for d in found))


def _stop_all(context: RunContext) -> None:
    """Let evaluations finish, and begin nothing more."""
    context.turns.stop()
