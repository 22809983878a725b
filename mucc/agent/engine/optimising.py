"""One task from beginning to end: measured, searched, compared with its baselines."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from mucc.agent.core.attempts import Attempt, Candidate
from mucc.agent.core.tasks import Compiled, Task
from mucc.agent.engine import documents, export
from mucc.agent.engine.clock import GPU, WAIT, Clock
from mucc.agent.engine.history import History
from mucc.agent.engine.lessons import lessons_of
from mucc.agent.engine.parts import Parts
from mucc.agent.engine.performing import Performer
from mucc.agent.engine.pursuing import evaluate
from mucc.agent.engine.turns import FIRST
from mucc.agent.store import StepRecord, TaskRecord, TaskState
from mucc.api.diagnostics import DiagnosticError


def ended(record: TaskRecord) -> bool:
    """Whether nothing is left to do for a task: what failed after its import is tried again when the run goes
    on, since the machine may have had its part in it."""
    if record.state is TaskState.FAILED:
        return record.task.imported.error is not None
    return record.state in (TaskState.DONE, TaskState.SKIPPED)


def missing(task: Task) -> str:
    """Why mucc can do nothing for a problem."""
    reasons = dict.fromkeys(f"{row['operation']}: {row['reason']}" for row in task.imported.opaque)
    return f"mucc compiles nothing of it: {'; '.join(reasons) or 'it has no operations'}"


def first_record(task: Task) -> TaskRecord:
    """A task as it is put into the store; what needs no attempt has ended already."""
    if task.imported.error is not None:
        return TaskRecord(task, TaskState.FAILED, _said(task.imported.error))
    if task.imported.compiled is Compiled.NONE:
        return TaskRecord(task, TaskState.SKIPPED, missing(task))
    return TaskRecord(task)


def _said(error: dict[str, Any]) -> str:
    return f"error[{error.get('code', '')}]: {error.get('message', '')}"


class Optimisation:
    """One task of a run. Runs in a thread of its own."""

    def __init__(self, parts: Parts, record: TaskRecord):
        self.parts, self.record = parts, record
        self.task = record.task
        self.clock = Clock(record.seconds)

    def run(self) -> None:
        """Do what is left to do.

        Raises Interrupted, ProposerFailed, and DiagnosticError for what the machine is to blame for; the
        task goes on from there another time.
        """
        parts, key = self.parts, self.task.key
        with self.clock.waiting(WAIT):
            parts.turns.begin(key)
        try:
            self._put(TaskState.RUNNING)
            export.problem(parts.folder, self.task)
            self._measure()
            why = Performer(parts, self.task, self.clock).search()
            self._finish(why)
        except BaseException:
            with suppress(DiagnosticError):
                self._put(self.record.state)
            raise
        finally:
            parts.turns.end(key)

    def _put(self, state: TaskState, **more: Any) -> None:
        seconds = self.clock.seconds()
        self.record = dataclasses.replace(self.record, task=self.task, state=state, seconds=seconds, **more)
        self.parts.store.put_task(self.record)

    def _measure(self) -> None:
        """Step 0: the baselines, and the program as imported."""
        parts, key = self.parts, self.task.key
        if any(step.index == 0 for step in parts.store.steps(key)):
            return
        started = time.time()
        parts.progress.task(self.task, "measure")
        with self.clock.waiting(WAIT):
            parts.turns.enter(key, FIRST, 0)
        try:
            if not parts.store.steps_of_attempts(key):
                candidate = Candidate(self.task.imported.program, "as imported")
                parts.store.add_attempts(key, 0, [candidate])
            with ThreadPoolExecutor(1, f"{key} baselines") as beside:
                compared = beside.submit(self._baselines)  # torch.compile takes as long as a build does
                evaluate(parts, self.task, self.clock, [(n, c) for n, _, c in parts.store.pending(key)])
                with self.clock.waiting(GPU):
                    note = compared.result()
        finally:
            parts.turns.leave(key)
        self.task = dataclasses.replace(self.task, baselines=note["ms"])
        self._put(TaskState.RUNNING)
        attempt = parts.store.attempts(key)[0]
        documents.leave(parts, key, 0, "Measure", *documents.measure(self.task, attempt, note["failed"]))
        parts.store.finish_step(key, StepRecord(0, "Measure", {}, [0], started, time.time() - started))

    def _baselines(self) -> dict[str, dict[str, Any]]:
        """Times of the baselines in ms, and why those that `failed` have none; measured only once. Runs in a
        thread beside the task's."""
        key = self.task.key
        note = self.parts.store.note(key, 0)
        if note is None:
            compared = self.parts.evaluator.compare(self.task, None)
            self.parts.check()
            note = {"ms": dict(compared.ms), "failed": dict(compared.failed)}
            self.parts.store.put_note(key, 0, note)
        return note

    def _finish(self, why: str) -> None:
        """The best against the baselines, what it taught, and its files."""
        parts = self.parts
        parts.progress.task(self.task, "compare")
        history = History(parts.store, self.task, parts.options.seed)
        history.index = 1 + max(step.index for step in parts.store.steps(self.task.key))
        view = history.view()
        result = self._result(view.best)
        parts.store.add_lessons(lessons_of(self.task, view.attempts, view.hypotheses, view.analysis))
        if view.best is not None:
            export.best(parts.folder, self.task, view.best, parts.evaluator)
        self._put(TaskState.DONE, stop=why, result=result)
        parts.progress.task(self.task, TaskState.DONE.value, why)

    def _result(self, best: Attempt | None) -> dict[str, Any]:
        """Times in ms and speedups, as the table has them. Without a best it falls back to PyTorch."""
        times: dict[str, float] = {}
        failed: dict[str, str] = {}
        if best is not None:
            with self.clock.waiting(GPU):
                try:
                    compared = self.parts.evaluator.compare(self.task, best.candidate)
                except DiagnosticError as error:
                    self.parts.check()
                    failed["mucc"] = str(error)
                else:
                    times, failed = dict(compared.ms), dict(compared.failed)
            self.parts.check()
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
            "attempts": sum(a.spent for a in self.parts.store.attempts(self.task.key)) - 1,
        }
