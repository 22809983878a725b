"""Optimise one task from beginning to end: measure it, search, compare the best with the baselines."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.evaluator import Comparison
from mucc.agent.core.tasks import Compiled, Task
from mucc.agent.engine import documents, export
from mucc.agent.engine.clock import GPU, WAIT, Clock
from mucc.agent.engine.context import RunContext
from mucc.agent.engine.history import History
from mucc.agent.engine.lessons import lessons_of
from mucc.agent.engine.rounds import evaluate
from mucc.agent.engine.steps import StepExecutor
from mucc.agent.engine.turns import FIRST
from mucc.agent.store import StepRecord, TaskRecord, TaskState
from mucc.agent.store.records import TaskResult
from mucc.api.diagnostics import DiagnosticError
from mucc.api.json_types import DiagnosticJson


def ended(record: TaskRecord) -> bool:
    """Whether a task has ended. A task that failed after its import is tried again when the run goes on,
    since the machine may have been at fault."""
    if record.state is TaskState.FAILED:
        return record.task.imported.error is not None
    return record.state in (TaskState.DONE, TaskState.SKIPPED)


def missing(task: Task) -> str:
    """Return the reasons why mucc compiles nothing of a problem."""
    reasons = dict.fromkeys(f"{row.operation}: {row.reason}" for row in task.imported.opaque)
    return f"mucc compiles nothing of it: {'; '.join(reasons) or 'it has no operations'}"


def first_record(task: Task) -> TaskRecord:
    """Return the first record of a task in the store; a task that cannot have attempts has ended already."""
    if task.imported.error is not None:
        return TaskRecord(task, TaskState.FAILED, _said(task.imported.error))
    if task.imported.compiled is Compiled.NONE:
        return TaskRecord(task, TaskState.SKIPPED, missing(task))
    return TaskRecord(task)


def _said(error: DiagnosticJson) -> str:
    return f"error[{error['code']}]: {error['message']}"


class TaskRun:
    """The work on one task of a run, in a thread of its own."""

    def __init__(self, context: RunContext, record: TaskRecord):
        self.context, self.record = context, record
        self.task = record.task
        self.clock = Clock(record.seconds)

    def run(self) -> None:
        """Do what is left of the task.

        Raises Interrupted, ProposerFailed, and DiagnosticError for faults of the machine; a later run of the
        task goes on from there.
        """
        context, key = self.context, self.task.key
        with self.clock.waiting(WAIT):
            context.turns.begin(key)
        try:
            self._put(TaskState.RUNNING)
            export.problem(context.folder, self.task)
            self._measure()
            why = StepExecutor(context, self.task, self.clock).search()
            self._finish(why)
        except BaseException:
            with suppress(DiagnosticError):
                self._put(self.record.state)
            raise
        finally:
            context.turns.end(key)

    def _put(self, state: TaskState, **more: Any) -> None:
        seconds = self.clock.seconds()
        self.record = dataclasses.replace(self.record, task=self.task, state=state, seconds=seconds, **more)
        self.context.store.put_task(self.record)

    def _measure(self) -> None:
        """Execute step 0: time the baselines and the program as imported."""
        context, key = self.context, self.task.key
        if any(step.index == 0 for step in context.store.steps(key)):
            return
        started = time.time()
        context.progress.task(self.task, "measure")
        with self.clock.waiting(WAIT):
            context.turns.enter(key, FIRST, 0)
        try:
            if not context.store.steps_of_attempts(key):
                candidate = Candidate(self.task.imported.program, "as imported")
                context.store.add_attempts(key, 0, [candidate])
            with ThreadPoolExecutor(1, f"{key} baselines") as beside:
                compared = beside.submit(self._baselines)  # torch.compile takes as long as a build does
                evaluate(context, self.task, self.clock, [(n, c) for n, _, c in context.store.pending(key)])
                with self.clock.waiting(GPU):
                    note = compared.result()
        finally:
            context.turns.leave(key)
        self.task = dataclasses.replace(self.task, baselines=dict(note.ms))
        self._put(TaskState.RUNNING)
        attempt = context.store.attempts(key)[0]
        documents.write(context, key, 0, "Measure", *documents.measure(self.task, attempt, dict(note.failed)))
        context.store.finish_step(key, StepRecord(0, "Measure", {}, [0], started, time.time() - started))

    def _baselines(self) -> Comparison:
        """Compare the baselines, or read the stored comparison. Runs in a thread beside the task's."""
        key = self.task.key
        note = self.context.store.note(Comparison, key, 0)
        if note is None:
            note = self.context.evaluator.compare(self.task, None)
            self.context.check()
            self.context.store.put_note(key, 0, note)
        return note

    def _finish(self, why: str) -> None:
        """Compare the best with the baselines, and store the result, lessons and files."""
        context = self.context
        context.progress.task(self.task, "compare")
        history = History(context.store, self.task, context.options.seed)
        history.index = 1 + max(step.index for step in context.store.steps(self.task.key))
        view = history.view()
        result = self._result(view.best)
        context.store.add_lessons(lessons_of(self.task, view.attempts, view.hypotheses, view.analysis))
        if view.best is not None:
            export.best(context.folder, self.task, view.best, context.evaluator)
        self._put(TaskState.DONE, stop=why, result=result)
        context.progress.task(self.task, TaskState.DONE.value, why)

    def _result(self, best: Attempt | None) -> TaskResult:
        """Time the best and the baselines. Without a best, the result is that of PyTorch."""
        times: dict[str, float] = {}
        failed: dict[str, str] = {}
        if best is not None:
            with self.clock.waiting(GPU):
                try:
                    compared = self.context.evaluator.compare(self.task, best.candidate)
                except DiagnosticError as error:
                    self.context.check()
                    failed["mucc"] = str(error)
                else:
                    times, failed = dict(compared.ms), dict(compared.failed)
            self.context.check()
        ms, bound = times.get("mucc"), self.task.bound_ms
        baselines = {**self.task.baselines, **times}
        return {
            "precision": self.task.precision,
            "card": self.task.card,
            "attempt": best.number if best else None,
            "ms": times or baselines,
            "speedups": {n: t / ms if ms else 1.0 for n, t in baselines.items() if n != "mucc"},
            "failed": failed,
            "bound_ms": bound,
            "gap": ms / bound if ms and bound else None,
            "label": best.outcome.label if best else "",
            "attempts": sum(a.spent for a in self.context.store.attempts(self.task.key)) - 1,
        }
